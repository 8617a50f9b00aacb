//! Address and API key of the API that is called: from the options, the environment, or the file
//! `env` of the stack.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use linkledger_core::config::{BaseUrl, InvalidBaseUrl, Secret};
use linkledger_service::settings;

use super::{ApiClient, RetryPolicy};
use crate::{
    data_folder::DataFolder,
    environment::EnvironmentFile,
    options::DATA_DIR,
    output::{WrongUse, note},
};

/// Environment variable of the API key. There is no option for the API key: every user of a machine
/// can read the arguments of all processes.
const KEY_VARIABLE: &str = "LINKLEDGER_API_KEY";

/// Help text of `--api-url`. As a doc comment the text would need backticks around the variables,
/// and the help would show the backticks.
const API_URL_HELP: &str = "Address of the API, http or https. The API key is read from the variable \
                            LINKLEDGER_API_KEY, or from the file that LINKLEDGER_API_KEY_FILE names. \
                            Default: address and API key of the stack in the data folder";

/// Options that select the API.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionOptions {
    #[arg(long, global = true, env = "LINKLEDGER_API_URL", hide_env_values = true, value_name = "URL",
          value_parser = parse_api_url, help = API_URL_HELP)]
    api_url: Option<BaseUrl>,
    /// Data folder of the stack on this machine whose API is called.
    #[arg(long, global = true, env = "LINKLEDGER_DATA_DIR", value_name = "FOLDER",
          default_value = DATA_DIR)]
    data_dir: PathBuf,
}

/// Options of every command that calls the API, allowed before and after a subcommand.
#[derive(Debug, Args)]
pub(crate) struct ApiOptions {
    #[command(flatten)]
    connection: ConnectionOptions,
    /// Print the JSON of the API; print an error as a problem document, on standard error.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl ApiOptions {
    /// Makes a client with the retry policy of an interactive command.
    pub(crate) fn client(&self) -> anyhow::Result<ApiClient> {
        self.client_with(RetryPolicy::INTERACTIVE)
    }

    /// Makes a client with a retry policy.
    pub(crate) fn client_with(&self, patience: RetryPolicy) -> anyhow::Result<ApiClient> {
        ApiClient::new(self.connection.target()?, patience, note)
    }
}

/// Address of an API, and an API key for the API.
#[derive(Debug)]
pub(crate) struct ApiTarget {
    pub(crate) api_url: BaseUrl,
    pub(crate) api_key: Secret,
}

impl ConnectionOptions {
    /// Returns the API to call. The option and the environment take precedence over the file of the
    /// stack.
    pub(crate) fn target(&self) -> anyhow::Result<ApiTarget> {
        match (self.api_url.clone(), key_of_environment()?) {
            (Some(api_url), Some(api_key)) => Ok(ApiTarget { api_url, api_key }),
            (api_url, api_key) => {
                let folder = DataFolder::locate(&self.data_dir);
                let file = EnvironmentFile::path(&folder).display().to_string();
                let stack = match EnvironmentFile::read(&folder)? {
                    Some(environment) => Some(of_stack(&environment, &file)?),
                    None => None,
                };
                complete(api_url, api_key, stack, &file)
            }
        }
    }
}

/// Parses the address of an API. User name and password are refused: they would be sent in place of
/// the API key.
fn parse_api_url(text: &str) -> Result<BaseUrl, String> {
    let api_url: BaseUrl = text
        .parse()
        .map_err(|error: InvalidBaseUrl| error.to_string())?;
    let url = api_url.url();
    if url.username().is_empty() && url.password().is_none() {
        Ok(api_url)
    } else {
        Err(format!(
            "remove the user name and password; the API key is read from {KEY_VARIABLE}"
        ))
    }
}

fn key_of_environment() -> anyhow::Result<Option<Secret>> {
    let Some(key) = settings::variable(KEY_VARIABLE)? else {
        return Ok(None);
    };
    match key.into_string() {
        Ok(key) if !key.is_empty() => Ok(Some(Secret::from(key))),
        Ok(_) => Ok(None),
        Err(_) => {
            let advice =
                format!("{KEY_VARIABLE} does not hold an API key: its value is not valid UTF-8");
            Err(WrongUse(advice).into())
        }
    }
}

/// Reads address and API key of the stack from its file `env`.
fn of_stack(environment: &EnvironmentFile, file: &str) -> anyhow::Result<ApiTarget> {
    let get = |name| {
        let value = environment.get(name);
        value.with_context(|| {
            format!(
                "{file} has no {name}; start the stack with `linkledger`, which writes the file"
            )
        })
    };
    let api_url = get("API_URL")?.parse();
    Ok(ApiTarget {
        api_url: api_url.with_context(|| {
            format!("API_URL in {file} is not valid; start the stack to write the file again")
        })?,
        api_key: Secret::from(get("API_KEY")?.to_owned()),
    })
}

/// Completes the address and the API key from the stack, if there is a stack.
fn complete(
    api_url: Option<BaseUrl>,
    api_key: Option<Secret>,
    stack: Option<ApiTarget>,
    file: &str,
) -> anyhow::Result<ApiTarget> {
    match (api_url, api_key, stack) {
        (Some(api_url), Some(api_key), _) => Ok(ApiTarget { api_url, api_key }),
        // The API key of the stack is sent to the stack only.
        (Some(api_url), None, Some(stack)) if stack.api_url == api_url => Ok(stack),
        (Some(api_url), None, _) => {
            let advice = format!("no API key for {}: set {KEY_VARIABLE}", api_url.as_str());
            Err(WrongUse(advice).into())
        }
        (None, api_key, Some(stack)) => Ok(ApiTarget {
            api_key: api_key.unwrap_or(stack.api_key),
            ..stack
        }),
        (None, _, None) => {
            let advice = format!(
                "there is no file {file}; start the stack with `linkledger`, name the data folder of a \
                 running stack with --data-dir, or set LINKLEDGER_API_URL and {KEY_VARIABLE}"
            );
            Err(WrongUse(advice).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "http://127.0.0.1:8080";

    fn target(api_url: Option<&str>, api_key: Option<&str>, stack: bool) -> Result<String, String> {
        let stack = stack.then(|| ApiTarget {
            api_url: STACK.parse().unwrap(),
            api_key: Secret::from("stack".to_owned()),
        });
        let api_url = api_url.map(|url| url.parse().unwrap());
        let api_key = api_key.map(|key| Secret::from(key.to_owned()));
        complete(api_url, api_key, stack, "data/env")
            .map(|target| format!("{} {}", target.api_url.as_str(), target.api_key.reveal()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn api_url_with_user_name_or_password_is_refused() {
        assert!(parse_api_url("http://127.0.0.1:8080/").is_ok());
        for refused in [
            "http://u:p@host/",
            "http://u@host",
            "http://:p@host",
            "host",
        ] {
            assert!(parse_api_url(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn option_and_environment_precede_the_file() {
        let other = "https://api.example.com";
        let chosen = target(Some(other), Some("own"), true);
        assert_eq!(chosen.unwrap(), "https://api.example.com own");
        let chosen = target(None, Some("own"), true);
        assert_eq!(chosen.unwrap(), "http://127.0.0.1:8080 own");
        assert_eq!(
            target(None, None, true).unwrap(),
            "http://127.0.0.1:8080 stack"
        );
    }

    #[test]
    fn api_key_of_the_stack_is_sent_only_there() {
        let chosen = target(Some("http://127.0.0.1:8080/"), None, true);
        assert_eq!(chosen.unwrap(), "http://127.0.0.1:8080 stack");
        for (url, stack) in [
            ("http://127.0.0.1:8081", true),
            ("https://example.com", true),
            (STACK, false),
        ] {
            let refused = target(Some(url), None, stack).unwrap_err();
            assert_eq!(
                refused,
                format!("no API key for {url}: set LINKLEDGER_API_KEY")
            );
        }
    }

    #[test]
    fn missing_address_error_says_what_to_do() {
        for key in [None, Some("own")] {
            let refused = target(None, key, false).unwrap_err();
            assert!(
                refused.starts_with("there is no file data/env; start the stack"),
                "{refused}"
            );
        }
    }
}
