//! Adds variables and files to clap's help and errors.

use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::file;

const OTHER_SOURCES: &str = "Each setting with a variable, [env: NAME], is also read from the file \
                             whose path NAME_FILE holds.";

/// Adds the note about files to the help of the command and its subcommands.
pub(super) fn name_sources(command: Command) -> Command {
    name_sources_below(command, false)
}

fn name_sources_below(command: Command, inherits_variables: bool) -> Command {
    let has_variables = |is_counted: fn(&Arg) -> bool| {
        let mut arguments = command.get_arguments().filter(|arg| is_counted(arg));
        arguments.any(|arg| {
            let name = arg.get_env().and_then(|name| name.to_str());
            name.is_some_and(file::may_name_file)
        })
    };
    let inherited = inherits_variables || has_variables(Arg::is_global_set);
    let is_said = inherits_variables || has_variables(|_| true);
    let own = command.get_after_help().map(ToString::to_string);
    let said = own
        .into_iter()
        .chain(is_said.then(|| OTHER_SOURCES.to_owned()));
    let said = said.collect::<Vec<_>>().join("\n\n");
    let command = if said.is_empty() {
        command
    } else {
        command.after_help(said)
    };
    command.mut_subcommands(|command| name_sources_below(command, inherited))
}

/// Adds the variables of the settings to an error about missing or empty arguments.
pub(super) fn name_variables(mut error: clap::Error, command: &Command) -> clap::Error {
    let mut variables = Vec::new();
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            collect_variables(command, missing, &mut variables);
        }
        (ErrorKind::InvalidValue, Some(ContextValue::String(empty))) if is_empty(&error) => {
            collect_variables(command, std::slice::from_ref(empty), &mut variables);
            if let Some(name) = variables.first() {
                let tip = format!(
                    "the flag or its variable {name} is empty: leave it out, or give it a value"
                );
                let tip = ContextValue::StyledStrs(vec![tip.into()]);
                error.insert(ContextKind::Suggested, tip);
            }
            return error;
        }
        _ => return error,
    }
    variables.sort_unstable();
    variables.dedup();
    if !variables.is_empty() {
        let tip = format!(
            "set the flag, or its variable, or NAME_FILE to the path of a file with the value: {}",
            variables.join(", ")
        );
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// Hides the user name and password of an address that an error repeats.
pub(super) fn hide_passwords(mut error: clap::Error) -> clap::Error {
    let repeated: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| {
            let hidden = match value {
                ContextValue::String(text) => ContextValue::String(without_password(text)?),
                ContextValue::Strings(texts) => {
                    let hide =
                        |text: &String| without_password(text).unwrap_or_else(|| text.clone());
                    ContextValue::Strings(texts.iter().map(hide).collect())
                }
                ContextValue::None
                | ContextValue::Bool(_)
                | ContextValue::Number(_)
                | ContextValue::StyledStr(_)
                | ContextValue::StyledStrs(_)
                | _ => return None,
            };
            Some((kind, hidden))
        })
        .collect();
    for (kind, value) in repeated {
        error.insert(kind, value);
    }
    error
}

/// Returns a text with … in place of everything between `://`, or the begin, and the last `@`; `None` if there
/// is nothing to hide. The text may be no valid address, and a password may have any character.
pub(super) fn without_password(text: &str) -> Option<String> {
    let start = text.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = start + text[start..].rfind('@')?;
    let holds_password = start > 0 || text[..end].contains(':');
    holds_password.then(|| format!("{}…{}", &text[..start], &text[end..]))
}

/// Returns true if the value of an invalid argument is empty, or there is none.
fn is_empty(error: &clap::Error) -> bool {
    match error.get(ContextKind::InvalidValue) {
        None => true,
        Some(ContextValue::String(value)) => value.is_empty(),
        Some(_) => false,
    }
}

fn collect_variables(command: &Command, missing: &[String], variables: &mut Vec<String>) {
    // A missing argument of another subcommand cannot be formatted by clap.
    let is_missing = |arg: &&Arg| {
        let flag = arg.get_long().map(|name| format!("--{name}"));
        let is_this = |text: &String| text.split_whitespace().next() == flag.as_deref();
        flag.is_some() && missing.iter().any(is_this)
    };
    for arg in command.get_arguments().filter(is_missing) {
        let name = arg.get_env().and_then(|name| name.to_str());
        variables.extend(name.map(str::to_owned));
    }
    for command in command.get_subcommands() {
        collect_variables(command, missing, variables);
    }
}
