//! `docs/configuration.md` lists every setting of every program, and the programs read settings from
//! flags, environment variables and files.

use std::{collections::BTreeSet, fs, process::Command as Process};

use clap::{Arg, Args, Command, CommandFactory as _};
use linkledger::command_line::CommandLine;
use linkledger_core::settings::unknown;

use crate::{committed::assert_current, process::data_folder, separate_processes::program};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
/// Variables without a flag: every user of the machine could read an API key in an argument.
const WITHOUT_FLAG: [&str; 1] = ["LINKLEDGER_API_KEY"];
/// Variables of the operators' commands and of the client.
const OF_OTHER_COMMANDS: [&str; 2] = ["LINKLEDGER_API_URL", "LINKLEDGER_OPERATOR"];

fn service<Config: Args, Listen: Args>(name: &'static str) -> Command {
    Listen::augment_args(Config::augment_args(Command::new(name)))
}

fn programs() -> [Command; 4] {
    use linkledger_query_api as query_api;
    use {linkledger_command_api as command_api, linkledger_projector as projector};
    [
        service::<command_api::config::CommandApiConfig, command_api::config::CommandApiListenConfig>(
            "command-api",
        ),
        service::<projector::Config, projector::config::ListenConfig>("projector"),
        service::<query_api::QueryApiConfig, query_api::QueryApiListenConfig>("query-api"),
        CommandLine::command(),
    ]
}

fn settings(program: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let arguments = program.get_arguments();
    arguments.filter_map(|arg| Some((arg, arg.get_env()?.to_str()?)))
}

fn row(arg: &Arg, variable: &str) -> String {
    let flag = arg.get_long().expect("a setting has a flag");
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<String> = defaults
        .map(|it| format!("`{}`", it.to_string_lossy()))
        .collect();
    let default = match (arg.is_required_set(), defaults.join(",")) {
        (true, _) => "none: must be given".to_owned(),
        (false, default) => default,
    };
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.expect("a setting is explained").to_string();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .map(|it| format!("`{}`", it.get_name()))
        .collect();
    let values = if values.is_empty() {
        String::new()
    } else {
        format!(" One of {}.", values.join(", "))
    };
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = help.trim_end_matches('.');
    format!("| `--{flag}` | `{variable}` | {default} | {help}.{values} |\n")
}

/// Returns the document with the tables of settings that the programs define.
fn with_tables(document: &str) -> String {
    let mut document = document.to_owned();
    for program in programs() {
        let begin = format!("<!-- settings of {} -->\n", program.get_name());
        let end = "<!-- end -->";
        let from = document
            .find(&begin)
            .expect("the document has each program")
            + begin.len();
        let to = from + document[from..].find(end).expect("a table has an end");
        let rows: String = settings(&program)
            .map(|(arg, variable)| row(arg, variable))
            .collect();
        let table =
            format!("\n| flag | variable | default | what it is |\n|---|---|---|---|\n{rows}\n");
        document.replace_range(from..to, &table);
    }
    document
}

#[test]
fn configuration_reference_matches_the_programs() {
    let committed = fs::read_to_string(FILE).unwrap();
    let generated = with_tables(&committed);
    let file = "docs/configuration.md";
    assert_current(file, &generated, "REWRITE_CONFIGURATION", "configuration");
}

#[test]
fn variables_of_other_programs_are_no_typos() {
    let programs = programs();
    let mut variables: BTreeSet<&str> = programs
        .iter()
        .flat_map(|it| settings(it).map(|(_, variable)| variable))
        .collect();
    variables.extend(WITHOUT_FLAG);
    variables.extend(OF_OTHER_COMMANDS);
    let known: BTreeSet<&str> = unknown::NAMES.iter().copied().collect();
    assert_eq!(known, variables);
}

#[test]
fn print_config_names_the_source_of_each_setting() {
    let folder = data_folder();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let query_api = program("query-api");
    let output = Process::new(&query_api)
        .args(["serve", "--print-config", "--rate-limit", "5"])
        .env_remove("DATABASE_URL")
        .env(
            "DATABASE_URL_FILE",
            file("url", "postgres://u:hunter2@db/links\n"),
        )
        .env("CURSOR_KEYS", "hunter3")
        .env("REDIRECT_STATUS", "301")
        .env("QUERY_API_PORT", "tcp://10.0.0.1:8083")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!printed.contains("hunter"), "{printed}");
    let origin = |flag: &str| {
        let line = printed.lines().find(|line| line.starts_with(flag)).unwrap();
        let parts = line.split("  ").map(str::trim).filter(|it| !it.is_empty());
        parts.skip(1).collect::<Vec<_>>().join(" | ")
    };
    let url = origin("--database-url");
    assert!(
        url.starts_with("postgres://u@db/links (password hidden) | file /"),
        "{url}"
    );
    assert!(url.ends_with("/url (DATABASE_URL_FILE)"), "{url}");
    assert_eq!(origin("--cursor-keys"), "… | variable CURSOR_KEYS");
    assert_eq!(
        origin("--redirect-status"),
        "301 | variable REDIRECT_STATUS"
    );
    assert_eq!(origin("--rate-limit"), "5 | flag");
    assert_eq!(origin("--redirect-cache-mib"), "64 | default");
}

#[test]
fn misspelt_variable_ends_the_start() {
    let query_api = program("query-api");
    let output = Process::new(&query_api)
        .args(["serve", "--database-url", "postgres://127.0.0.1:1/x"])
        .env("CURSOR_KEY", "00".repeat(32))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = "error: no setting has the variable CURSOR_KEY: did you mean CURSOR_KEYS?";
    assert!(message.starts_with(expected), "{message}");
}
