//! Sources of settings, in order of precedence: flag, environment variable `NAME`, content of the
//! file named by `NAME_FILE`, default.

mod file;
mod help;
mod manual;
mod print;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
    process,
};

use clap::{Arg, ArgAction, ArgMatches, Command, Parser, error::ErrorKind};

pub use self::file::variable;

const PRINT_CONFIG: &str = "print-config";

/// Environment variables of a process.
pub type Variables = BTreeMap<String, OsString>;

/// Files that contain the values of settings, by the setting's variable.
type Files = BTreeMap<String, PathBuf>;

/// Parses the command line, completed from variables and files. Ends the process after an error,
/// after help, or after printing the settings.
pub fn parse<T: Parser>() -> T {
    parse_explaining(|error| error)
}

/// Parses like [`parse`], and lets `explain` extend errors of the command line.
pub fn parse_explaining<T: Parser>(explain: impl Fn(clap::Error) -> clap::Error) -> T {
    let mut read = read(T::command(), env::args_os(), &variables_of_process())
        .unwrap_or_else(|error| explain(error).exit());
    if let Some(folder) = manual::asked_for(&read.matches) {
        let program = help::name_sources(T::command().arg(print_config()));
        manual::write(program, folder)
            .unwrap_or_else(|error| read.command.error(ErrorKind::Io, error).exit());
        process::exit(0)
    }
    if read.matches.get_flag(PRINT_CONFIG) {
        let printed = write!(io::stdout(), "{}", print::settings(&read));
        process::exit(i32::from(printed.is_err()))
    }
    T::from_arg_matches(&read.matches)
        .unwrap_or_else(|error| error.format(&mut read.command).exit())
}

/// Parses the settings of a command from variables and files alone: for a service that runs inside another
/// program.
///
/// # Errors
/// Returns an error that names the setting whose value is missing or not valid.
pub fn of_environment(command: Command) -> Result<ArgMatches, clap::Error> {
    let program = command.get_name().to_owned().into();
    Ok(read(command, [program], &variables_of_process())?.matches)
}

fn variables_of_process() -> Variables {
    // Names that are not Unicode are never settings.
    let variables = env::vars_os();
    variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .collect()
}

/// A valid command line.
struct ParsedCommandLine {
    command: Command,
    matches: ArgMatches,
    files: Files,
}

fn read(
    command: Command,
    arguments: impl IntoIterator<Item = OsString>,
    variables: &Variables,
) -> Result<ParsedCommandLine, clap::Error> {
    let mut files = Files::new();
    let mut wrong = None;
    let mut command = complete(command, &mut |name| match file::value(name, variables) {
        Ok(None) => None,
        Ok(Some((file, value))) => {
            files.insert(name.to_owned(), file);
            Some(value)
        }
        Err(error) => {
            wrong.get_or_insert(error);
            None
        }
    })
    .arg(print_config())
    .subcommand(manual::command());
    command = help::name_sources(command);
    let parsed = command.try_get_matches_from_mut(arguments);
    let asks_for_help = matches!(&parsed, Err(error) if !error.use_stderr());
    if let Some(wrong) = wrong.filter(|_| !asks_for_help) {
        return Err(command.error(ErrorKind::ValueValidation, wrong));
    }
    Ok(ParsedCommandLine {
        matches: parsed
            .map_err(|error| help::hide_passwords(help::name_variables(error, &command)))?,
        command,
        files,
    })
}

fn print_config() -> Arg {
    Arg::new(PRINT_CONFIG)
        .long(PRINT_CONFIG)
        .global(true)
        .action(ArgAction::SetTrue)
        .help("Print each setting with its value and its source, hide secrets, and exit")
}

/// Sets the values from files as defaults of the arguments, in the command and its subcommands.
fn complete(command: Command, value_of: &mut impl FnMut(&str) -> Option<OsString>) -> Command {
    let command = command.mut_args(|arg| {
        let value = arg
            .get_env()
            .and_then(|name| name.to_str())
            .and_then(&mut *value_of);
        match value {
            // The value may be a secret, so help never shows it.
            Some(value) => arg
                .required(false)
                .default_value(value)
                .hide_default_value(true),
            None => arg,
        }
    });
    command.mut_subcommands(|command| complete(command, value_of))
}

#[cfg(test)]
mod tests;
