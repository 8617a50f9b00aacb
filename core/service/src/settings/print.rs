//! Prints the effective settings of a command with their sources, without secrets.

use std::{ffi::OsStr, fmt::Write as _};

use clap::{Arg, ArgMatches, parser::ValueSource};
use url::Url;

use super::{Files, ParsedCommandLine};

const HIDDEN: &str = "…";

/// Returns one line for each setting of the chosen subcommand.
pub(super) fn settings(read: &ParsedCommandLine) -> String {
    let (mut command, mut matches) = (&read.command, &read.matches);
    while let Some((name, inner)) = matches.subcommand() {
        command = command
            .find_subcommand(name)
            .expect("what was chosen exists");
        matches = inner;
    }
    let rows: Vec<[String; 3]> = command
        .get_arguments()
        .filter(|arg| arg.get_action().takes_values() || arg.get_env().is_some())
        .filter_map(|arg| {
            let flag = format!("--{}", arg.get_long()?);
            Some([flag, value(arg, matches), origin(arg, matches, &read.files)])
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (flag, value) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
    rows.iter().fold(String::new(), |mut text, row| {
        let [name, shown, from] = row;
        writeln!(text, "{name:flag$}  {shown:value$}  {from}")
            .expect("writing to a string never fails");
        text
    })
}

fn value(arg: &Arg, matches: &ArgMatches) -> String {
    let id = arg.get_id().as_str();
    let Some(values) = matches.get_raw(id) else {
        return "-".to_owned();
    };
    let values: Vec<String> = values
        .map(|value| shown(value, arg.is_hide_env_values_set()))
        .collect();
    values.join(",")
}

/// Hides passwords: of an address only the password, of another secret everything.
fn shown(value: &OsStr, is_secret: bool) -> String {
    let text = value.to_string_lossy();
    let Ok(mut url) = Url::parse(&text) else {
        return if is_secret {
            HIDDEN.to_owned()
        } else {
            text.into()
        };
    };
    let holds_secrets = url.password().is_some()
        || url
            .query_pairs()
            .any(|(name, _)| is_secret_parameter(&name));
    if !holds_secrets {
        return text.into();
    }
    if url.password().is_some() && url.set_password(None).is_err() {
        return HIDDEN.to_owned();
    }
    let parameters: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| !is_secret_parameter(name))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    url.set_query(None);
    if !parameters.is_empty() {
        url.query_pairs_mut().extend_pairs(parameters);
    }
    format!("{url} (password hidden)")
}

fn is_secret_parameter(name: &str) -> bool {
    name.contains("password")
}

fn origin(arg: &Arg, matches: &ArgMatches, files: &Files) -> String {
    let variable = arg.get_env().and_then(OsStr::to_str).unwrap_or_default();
    match matches.value_source(arg.get_id().as_str()) {
        Some(ValueSource::CommandLine) => "flag".to_owned(),
        Some(ValueSource::EnvVariable) => format!("variable {variable}"),
        Some(_) => match files.get(variable) {
            Some(file) => format!("file {} ({variable}_FILE)", file.display()),
            None => "default".to_owned(),
        },
        None => "not set".to_owned(),
    }
}
