//! `docs/configuration.md` lists every setting of every program, and the programs read settings from
//! flags, environment variables and files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command as Process,
};

use clap::{Arg, Args, Command, CommandFactory as _};
use linkledger::command_line::CommandLine;

use crate::{committed::assert_current, process::data_folder, services::program};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

fn service<Config: Args, Listen: Args>(name: &'static str) -> Command {
    Listen::augment_args(Config::augment_args(Command::new(name)))
}

fn programs() -> [Command; 5] {
    use linkledger_query_api as query_api;
    use {linkledger_command_api as command_api, linkledger_projector as projector};
    [
        command_api::config::CommandApiSettings::augment_args(Command::new("command-api")),
        service::<projector::Config, projector::config::ListenConfig>("projector"),
        service::<query_api::QueryApiConfig, query_api::QueryApiListenConfig>("query-api"),
        // `projector webhooks`, a process of its own.
        projector::webhooks::config::WebhooksSettings::augment_args(Command::new("webhooks")),
        CommandLine::command(),
    ]
}

fn settings(program: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let arguments = program.get_arguments();
    arguments.filter_map(|arg| Some((arg, arg.get_env()?.to_str()?)))
}

fn item(arg: &Arg, variable: &str) -> String {
    let flag = arg.get_long().expect("a setting has a flag");
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<String> = defaults
        .map(|it| format!("`{}`", it.to_string_lossy()))
        .collect();
    let default = match (arg.is_required_set(), defaults.join(",")) {
        (true, _) => " (required)".to_owned(),
        (false, default) if default.is_empty() => default,
        (false, default) => format!(" ({default})"),
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
    format!("- `--{flag}`, `{variable}`{default}: {help}.{values}\n")
}

/// Returns the items of settings by the programs that have them, in the order of the programs.
fn items_by_programs() -> BTreeMap<String, String> {
    let programs = programs();
    let items = |program: &Command| {
        let items = settings(program).map(|(arg, variable)| item(arg, variable));
        items.collect::<Vec<String>>()
    };
    let mut by_programs: BTreeMap<String, String> = BTreeMap::new();
    let mut placed = BTreeSet::new();
    for program in &programs {
        for item in items(program) {
            let owners = programs.iter().filter(|it| items(it).contains(&item));
            let owners: Vec<&str> = owners.map(Command::get_name).collect();
            if placed.insert(item.clone()) {
                by_programs
                    .entry(owners.join(", "))
                    .or_default()
                    .push_str(&item);
            }
        }
    }
    by_programs
}

/// Returns the document with the lists of settings that the programs define.
fn with_lists(document: &str) -> String {
    let mut document = document.to_owned();
    let items_by_programs = items_by_programs();
    let lists = document.matches("<!-- settings of ").count();
    assert_eq!(lists, items_by_programs.len(), "lists of settings");
    for (programs, items) in items_by_programs {
        let begin = format!("<!-- settings of {programs} -->\n");
        let end = "<!-- end -->";
        let Some(from) = document.find(&begin) else {
            panic!("the document lacks {begin}");
        };
        let from = from + begin.len();
        let to = from + document[from..].find(end).expect("a list has an end");
        document.replace_range(from..to, &format!("\n{items}\n"));
    }
    document
}

#[test]
fn configuration_reference_matches_the_programs() {
    let committed = fs::read_to_string(FILE).unwrap();
    let generated = with_lists(&committed);
    let file = "docs/configuration.md";
    assert_current(file, &generated, "REWRITE_CONFIGURATION", "configuration");
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
        .env("READ_DATABASE_URL", "hunter3")
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
    assert_eq!(
        origin("--read-database-url"),
        "… | variable READ_DATABASE_URL"
    );
    assert_eq!(
        origin("--redirect-status"),
        "301 | variable REDIRECT_STATUS"
    );
    assert_eq!(origin("--rate-limit"), "5 | flag");
    assert_eq!(origin("--redirect-cache-mib"), "64 | default");
}
