//! `docs/configuration.md` has every setting of every program, as clap knows them; and what
//! processes make of variables and files.

use std::{collections::BTreeSet, env, fs, process::Command as Process};

use clap::{Arg, Args, Command, CommandFactory as _};
use linkledger::command_line::CommandLine;
use linkledger_core::settings::unknown;

use crate::{process::data_folder, separate_processes::program};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
const REWRITE: &str = "REWRITE_CONFIGURATION";
/// Variables that no flag stands for: a key in an argument is seen by every user of the machine.
const WITHOUT_FLAG: [&str; 1] = ["LINKLEDGER_API_KEY"];
/// Of operators' commands, and of those of the client.
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

/// The document with the tables that the programs have.
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
fn the_committed_reference_is_what_the_programs_take() {
    let committed = fs::read_to_string(FILE).unwrap();
    let said = with_tables(&committed);
    if env::var_os(REWRITE).is_some() {
        fs::write(FILE, &said).unwrap();
    } else {
        assert!(
            committed == said,
            "docs/configuration.md is out of date; rewrite it and read the difference:\n\
             {REWRITE}=1 cargo test -p linkledger --test e2e configuration && git diff docs/configuration.md"
        );
    }
}

#[test]
fn no_program_takes_the_variable_of_another_for_a_slip() {
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
fn a_setting_is_a_flag_or_a_variable_or_a_file_and_the_process_says_which() {
    let folder = data_folder();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let query_api = program("linkledger-query-api", "query-api");
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
fn a_variable_that_is_nearly_a_setting_ends_the_start_in_one_line() {
    let query_api = program("linkledger-query-api", "query-api");
    let output = Process::new(&query_api)
        .args(["serve", "--database-url", "postgres://127.0.0.1:1/x"])
        .env("CURSOR_KEY", "00".repeat(32))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "error: no setting has the variable CURSOR_KEY: did you mean CURSOR_KEYS?";
    assert!(told.starts_with(expected), "{told}");
}
