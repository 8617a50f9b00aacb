//! The settings that the services read from the environment of the stack. A setting is applied as the
//! service itself would apply it, unless the stack decides its value: then a warning names the setting.

use std::{collections::BTreeSet, env};

use clap::{Arg, Args, Command, builder::Resettable, error::ContextKind, error::ContextValue};
use linkledger_command_api::config::{CommandApiConfig, CommandApiSettings};
use linkledger_projector::{
    config::{Config as ProjectorConfig, ProjectorSettings},
    webhooks::config::{WebhooksConfig, WebhooksSettings},
};
use linkledger_query_api::{QueryApiConfig, QueryApiSettings};
use linkledger_service::settings;

use crate::{environment::EnvironmentFile, options::StackOptions, output::WrongUse};

/// Settings of the services that the stack decides, by its options, its servers and its ports.
const DECIDED: [&str; 19] = [
    "ALLOW_UNSAFE_POSTGRES",
    "BASE_URL",
    "DATABASE_URL",
    "KAFKA_FETCH_WAIT_MAX_MS",
    "INSTANCE_ID",
    "KAFKA_BROKERS",
    "KAFKA_CLICKS_TOPIC",
    "KAFKA_COMPRESSION",
    "KAFKA_TOPIC",
    "LINK_PRICE",
    "LOG_DATABASE_URL",
    "CLICKS",
    "RATE_LIMIT",
    "READ_DATABASE_URL",
    "READ_REPLICA_URLS",
    "RELAY_BATCH_INTERVAL_MS",
    "RELAY_DATABASE_URL",
    "SHORT_BASE_URL",
    "WEBHOOK_KEYS_FILE",
];

/// Defaults of the stack that differ from those of the services: memory for a million links, and webhooks to receivers
/// on this machine.
const DEFAULTS: [(&str, &str); 2] = [
    ("REDIRECT_CACHE_MIB", "256"),
    ("WEBHOOK_ALLOW_NETS", "127.0.0.0/8,::1/128"),
];

/// Value of a required setting until the stack decides the value. Not `-`, which reads standard input.
const UNDECIDED: &str = "undecided";

/// Variables that the process itself reads: filter of the log, for all services.
const OF_THE_PROCESS: &str = "RUST_LOG";

/// Settings of the services, in which the values that the stack decides are still missing.
pub(super) struct ServiceConfigs {
    pub(super) command_api: CommandApiConfig,
    pub(super) projector: ProjectorConfig,
    pub(super) query_api: QueryApiConfig,
    /// Settings of the dispatcher of webhooks.
    pub(super) webhooks: WebhooksConfig,
}

impl ServiceConfigs {
    /// Reads the settings from the environment.
    ///
    /// # Errors
    /// Returns [`WrongUse`] that names the variable whose value is not valid.
    pub(super) fn of_environment() -> anyhow::Result<Self> {
        Ok(Self {
            command_api: parse("command-api")?,
            projector: parse("projector")?,
            query_api: parse("query-api")?,
            webhooks: parse("webhooks")?,
        })
    }
}

/// Returns a warning for the variables that are set and ignored; none for those that come from the file `env` of
/// the stack itself.
pub(super) fn warnings(stack: Option<&EnvironmentFile>) -> Vec<String> {
    let is_set = |name: &str| {
        let value = env::var_os(name);
        let of_stack = stack.and_then(|stack| stack.get(name));
        value.is_some_and(|value| of_stack.is_none_or(|of_stack| value != of_stack))
            || env::var_os(format!("{name}_FILE")).is_some()
    };
    let options = names(&StackOptions::augment_args(Command::new("stack")));
    let ignored: Vec<String> = ignored(&options)
        .into_iter()
        .filter(|name| is_set(name))
        .collect();
    let (replaced, decided): (Vec<_>, Vec<_>) = ignored
        .into_iter()
        .partition(|name| options.contains(&option_for(name)));
    let mut warnings: Vec<String> = replaced
        .iter()
        .map(|name| {
            format!(
                "warning: {name} is ignored; the stack reads {}",
                option_for(name)
            )
        })
        .collect();
    if !decided.is_empty() {
        let verb = if decided.len() == 1 { "is" } else { "are" };
        warnings.push(format!(
            "warning: {} {verb} ignored: the stack decides such values itself; for others run the services as \
             processes of their own (docs/deploy.md)",
            decided.join(", ")
        ));
    }
    warnings
}

/// Returns the settings of the services that the stack does not apply.
fn ignored(options: &BTreeSet<String>) -> BTreeSet<String> {
    let whole = [
        names(&CommandApiSettings::augment_args(Command::new(
            "command-api",
        ))),
        names(&ProjectorSettings::augment_args(Command::new("projector"))),
        names(&QueryApiSettings::augment_args(Command::new("query-api"))),
        names(&WebhooksSettings::augment_args(Command::new("webhooks"))),
    ];
    let applied = [
        names(&applied::<CommandApiConfig>("command-api")),
        names(&applied::<ProjectorConfig>("projector")),
        names(&applied::<QueryApiConfig>("query-api")),
        names(&applied::<WebhooksConfig>("webhooks")),
    ];
    let applied: BTreeSet<String> = applied.into_iter().flatten().collect();
    let is_ignored = |name: &String| {
        !applied.contains(name) && !options.contains(name) && name != OF_THE_PROCESS
    };
    whole.into_iter().flatten().filter(is_ignored).collect()
}

/// Returns the variable of the stack's option for a setting of the services.
fn option_for(name: &str) -> String {
    let option = match name {
        "COMMAND_API_LISTEN" | "QUERY_API_LISTEN" => "API_PORT",
        "QUERY_SHORT_LISTEN" => "SHORT_PORT",
        "ADMIN_LISTEN" => "ADMIN_PORT",
        name => name,
    };
    format!("LINKLEDGER_{option}")
}

/// Returns the command with the settings of a service, of which those that the stack decides have no variable.
fn applied<T: Args>(service: &'static str) -> Command {
    T::augment_args(Command::new(service)).mut_args(|arg| {
        let name = variable(&arg).unwrap_or_default();
        let default = DEFAULTS.iter().find(|(setting, _)| *setting == name);
        if DECIDED.contains(&name.as_str()) {
            let is_required = arg.is_required_set();
            let arg = arg.env(Resettable::Reset);
            if is_required {
                arg.required(false).default_value(UNDECIDED)
            } else {
                arg
            }
        } else if let Some((_, default)) = default {
            arg.default_value(*default)
        } else {
            arg
        }
    })
}

fn parse<T: Args>(service: &'static str) -> anyhow::Result<T> {
    let command = applied::<T>(service);
    let parsed = settings::of_environment(command.clone());
    let parsed = parsed.and_then(|matches| T::from_arg_matches(&matches));
    parsed.map_err(|error| WrongUse(explained(&error, &command)).into())
}

/// Returns the text of an error, with the variable in place of the flag, which the stack does not have.
fn explained(error: &clap::Error, command: &Command) -> String {
    let text = error.to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    let text = text.trim_start_matches("error: ").trim();
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return text.to_owned();
    };
    let flag = shown.split_whitespace().next().unwrap_or_default();
    let long = flag.trim_start_matches("--");
    let mut arguments = command.get_arguments();
    match arguments
        .find(|arg| arg.get_long() == Some(long))
        .and_then(variable)
    {
        Some(name) => text.replace(&format!("'{shown}'"), &name),
        None => text.to_owned(),
    }
}

/// Returns the variables of a command.
fn names(command: &Command) -> BTreeSet<String> {
    command.get_arguments().filter_map(variable).collect()
}

fn variable(arg: &Arg) -> Option<String> {
    Some(arg.get_env()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_a_service_is_applied_or_named() {
        let options = names(&StackOptions::augment_args(Command::new("stack")));
        let ignored = ignored(&options);
        for decided in DECIDED {
            assert!(
                ignored.contains(decided),
                "{decided} is no setting of a service"
            );
        }
        for listener in [
            "QUERY_API_LISTEN",
            "LOG_FORMAT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ] {
            assert!(ignored.contains(listener), "{listener}");
        }
        for applied in [
            "CORS_ALLOWED_ORIGINS",
            "GEOIP_DATABASE",
            "KAFKA_CA_FILE",
            "RUST_LOG",
            "WEBHOOK_ALLOW_NETS",
        ] {
            assert!(!ignored.contains(applied), "{applied}");
        }
    }

    #[test]
    fn ignored_setting_names_the_option_of_the_stack() {
        let options = names(&StackOptions::augment_args(Command::new("stack")));
        for (setting, option) in [
            ("RATE_LIMIT", Some("LINKLEDGER_RATE_LIMIT")),
            ("QUERY_SHORT_LISTEN", Some("LINKLEDGER_SHORT_PORT")),
            ("ADMIN_LISTEN", Some("LINKLEDGER_ADMIN_PORT")),
            ("BASE_URL", None),
        ] {
            let found = Some(option_for(setting)).filter(|name| options.contains(name));
            assert_eq!(found.as_deref(), option, "{setting}");
        }
    }
}
