//! Which API is called, and with which key: the option, the environment, the stack's file.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use linkledger_core::{
    config::{BaseUrl, InvalidBaseUrl, Secret},
    settings,
};

use super::{Client, Patience};
use crate::{data_folder::DataFolder, environment::Environment, options::DATA_DIR, output::note};

/// Variable of the API key. There is no option for it: every user of a machine can read the
/// arguments of its processes.
const KEY_VARIABLE: &str = "LINKLEDGER_API_KEY";

/// In words that a doc comment would have to mark up.
const API_URL_HELP: &str = "Address of the API; its key is read from LINKLEDGER_API_KEY, or from the file \
                            that LINKLEDGER_API_KEY_FILE names. \
                            Default: address and key of the stack in the data folder";

/// Where the API is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    #[arg(long, global = true, env = "LINKLEDGER_API_URL", value_name = "URL",
          value_parser = parse_api_url, help = API_URL_HELP)]
    api_url: Option<BaseUrl>,
    /// Data folder of a stack on this machine.
    #[arg(long, global = true, env = "LINKLEDGER_DATA_DIR", value_name = "FOLDER",
          default_value = DATA_DIR)]
    data_dir: PathBuf,
}

/// What every command against the API takes, before or after the last word of the command.
#[derive(Debug, Args)]
pub(crate) struct ApiOptions {
    #[command(flatten)]
    connection: Connection,
    /// Print the API's own JSON; a refusal is printed as its problem document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl ApiOptions {
    /// A client for a person who waits.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Client::new(self.connection.target()?, Patience::PERSON, note)
    }
}

/// An API and a key for it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) api_url: BaseUrl,
    pub(crate) api_key: Secret,
}

impl Connection {
    /// The API to call. Option and environment come before the file.
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        match (self.api_url.clone(), key_of_environment()?) {
            (Some(api_url), Some(api_key)) => Ok(Target { api_url, api_key }),
            (api_url, api_key) => {
                let folder = DataFolder::locate(&self.data_dir);
                let file = Environment::path(&folder).display().to_string();
                let stack = match Environment::read(&folder)? {
                    Some(environment) => Some(of_stack(&environment, &file)?),
                    None => None,
                };
                complete(api_url, api_key, stack, &file)
            }
        }
    }
}

/// A name and password would be sent in place of the key.
fn parse_api_url(text: &str) -> Result<BaseUrl, String> {
    let api_url: BaseUrl = text
        .parse()
        .map_err(|error: InvalidBaseUrl| error.to_string())?;
    let url = api_url.url();
    if url.scheme() == "https" && !cfg!(feature = "https") {
        return Err("this build has no TLS: build with --features production".to_owned());
    }
    if url.username().is_empty() && url.password().is_none() {
        Ok(api_url)
    } else {
        Err(format!(
            "leave the user name and password out; the key is read from {KEY_VARIABLE}"
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
        Err(_) => bail!("{KEY_VARIABLE} holds no API key"),
    }
}

/// The stack that the file describes.
fn of_stack(environment: &Environment, file: &str) -> anyhow::Result<Target> {
    let get = |name| {
        let value = environment.get(name);
        value.with_context(|| format!("{file} has no {name}; start the stack to write it again"))
    };
    let api_url = get("API_URL")?.parse();
    Ok(Target {
        api_url: api_url.with_context(|| format!("API_URL in {file}"))?,
        api_key: Secret::from(get("API_KEY")?.to_owned()),
    })
}

/// What option and environment lack comes from the stack, if there is one.
fn complete(
    api_url: Option<BaseUrl>,
    api_key: Option<Secret>,
    stack: Option<Target>,
    file: &str,
) -> anyhow::Result<Target> {
    match (api_url, api_key, stack) {
        (Some(api_url), Some(api_key), _) => Ok(Target { api_url, api_key }),
        // A key is sent to the API that it is for and to no other.
        (Some(api_url), None, Some(stack)) if stack.api_url == api_url => Ok(stack),
        (Some(api_url), None, _) => {
            bail!("no API key for {}: set {KEY_VARIABLE}", api_url.as_str())
        }
        (None, api_key, Some(stack)) => Ok(Target {
            api_key: api_key.unwrap_or(stack.api_key),
            ..stack
        }),
        (None, _, None) => bail!(
            "there is no {file}; start the stack with `linkledger`, or set LINKLEDGER_API_URL and \
             {KEY_VARIABLE}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "http://127.0.0.1:8080";

    fn target(api_url: Option<&str>, api_key: Option<&str>, stack: bool) -> Result<String, String> {
        let stack = stack.then(|| Target {
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
    fn an_address_has_no_user_name_and_no_password() {
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
    fn option_and_environment_come_before_the_file() {
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
    fn the_key_of_the_stack_is_sent_to_the_stack_only() {
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
    fn without_an_api_it_is_said_what_to_do() {
        for key in [None, Some("own")] {
            let refused = target(None, key, false).unwrap_err();
            assert!(
                refused.starts_with("there is no data/env; start the stack"),
                "{refused}"
            );
        }
    }
}
