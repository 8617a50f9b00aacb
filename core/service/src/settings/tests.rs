//! Precedence of flags, variables, files and defaults; hidden secrets.
//!
//! clap reads variables from the process: `deploy/local/tests` tests that.

use std::{ffi::OsString, fs, path::PathBuf};

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _, Parser, value_parser};

use super::{Variables, help::without_password, read};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    #[command(after_help = "Exit codes: 0")]
    Serve {
        #[arg(long, env = "NOT_IN_THIS_PROCESS_URL", hide_env_values = true)]
        url: String,
        #[arg(long, env = "NOT_IN_THIS_PROCESS_KEYS", hide_env_values = true)]
        keys: Option<String>,
        #[arg(long, env = "NOT_IN_THIS_PROCESS_HOSTS", value_delimiter = ',')]
        hosts: Vec<String>,
        #[arg(long, env = "NOT_IN_THIS_PROCESS_LIMIT", default_value_t = 7)]
        limit: u32,
    },
}

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
        .collect()
}

fn try_read(arguments: &str, given: &Variables) -> Result<super::ParsedCommandLine, String> {
    let arguments = format!("program {arguments}");
    let arguments = arguments.split_whitespace().map(OsString::from);
    read(Cli::command(), arguments, given).map_err(|error| error.to_string())
}

fn parsed(arguments: &str, given: &Variables) -> Result<Sub, String> {
    let read = try_read(arguments, given)?;
    Ok(Cli::from_arg_matches(&read.matches).unwrap().command)
}

#[test]
fn flag_overrides_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let given = variables(&[
        (
            "NOT_IN_THIS_PROCESS_URL_FILE",
            &path("url", "postgres://u:secret@h/d\n"),
        ),
        ("NOT_IN_THIS_PROCESS_HOSTS_FILE", &path("hosts", "a,b\r\n")),
        ("NOT_IN_THIS_PROCESS_LIMIT_FILE", &path("limit", "9\n")),
    ]);
    let Sub::Serve {
        url,
        keys,
        hosts,
        limit,
    } = parsed("serve", &given).unwrap();
    assert_eq!(
        (url.as_str(), keys, limit),
        ("postgres://u:secret@h/d", None, 9)
    );
    assert_eq!(hosts, ["a", "b"]);
    let Sub::Serve { url, limit, .. } = parsed("serve --url x --limit 8", &given).unwrap();
    assert_eq!((url.as_str(), limit), ("x", 8));

    let wrong = variables(&[
        ("NOT_IN_THIS_PROCESS_URL", "x"),
        ("NOT_IN_THIS_PROCESS_LIMIT_FILE", &path("limit", "many")),
    ]);
    let refused = parsed("serve --url x", &wrong).unwrap_err();
    assert!(
        refused.contains("invalid value 'many' for '--limit"),
        "{refused}"
    );
}

#[test]
fn unreadable_file_is_named_with_variable() {
    let unreadable = variables(&[("NOT_IN_THIS_PROCESS_URL_FILE", "/nowhere/url")]);
    let refused = parsed("serve", &unreadable).unwrap_err();
    let expected = "error: NOT_IN_THIS_PROCESS_URL_FILE: cannot read /nowhere/url: No such file";
    assert!(refused.starts_with(expected), "{refused}");

    let both = variables(&[
        ("NOT_IN_THIS_PROCESS_URL_FILE", "/nowhere/url"),
        ("NOT_IN_THIS_PROCESS_URL", "x"),
    ]);
    let refused = parsed("serve", &both).unwrap_err();
    assert!(
        refused.contains("NOT_IN_THIS_PROCESS_URL_FILE are both set"),
        "{refused}"
    );
    // Help is shown in spite of the error.
    let help = parsed("serve --help", &both).unwrap_err();
    assert!(help.contains("Usage: program serve"), "{help}");
}

#[test]
fn missing_setting_is_named_with_variable() {
    let refused = parsed("serve", &Variables::new()).unwrap_err();
    assert!(refused.contains("--url <URL>"), "{refused}");
    assert!(
        refused.contains("with the value: NOT_IN_THIS_PROCESS_URL\n"),
        "{refused}"
    );
    let help = parsed("serve --help", &Variables::new()).unwrap_err();
    assert!(
        help.contains("Exit codes: 0\n\nEach setting with a variable, [env: NAME], is also read"),
        "{help}"
    );
}

#[test]
fn empty_setting_is_named_with_variable() {
    let folder = Arg::new("folder")
        .long("folder")
        .env("NOT_IN_THIS_PROCESS_FOLDER")
        .value_parser(value_parser!(PathBuf));
    let command = Command::new("program").arg(folder);
    let arguments = ["program", "--folder="].map(OsString::from);
    let refused = read(command, arguments, &Variables::new());
    let refused = refused.map(drop).unwrap_err().to_string();
    let named = "its variable NOT_IN_THIS_PROCESS_FOLDER is empty";
    assert!(refused.contains(named), "{refused}");
}

#[test]
fn printed_settings_have_sources_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    fs::write(&keys, "0123456789abcdef\n").unwrap();
    let keys = keys.display().to_string();
    let given = variables(&[("NOT_IN_THIS_PROCESS_KEYS_FILE", &keys)]);
    let url = "postgres://me:hunter2@db/links?sslmode=verify-full&sslpassword=hunter3";
    let read = try_read(&format!("serve --print-config --url {url}"), &given).unwrap();
    let printed = super::print::settings(&read);
    let lines: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .collect()
        })
        .collect();
    let shown_url = "postgres://me@db/links?sslmode=verify-full (password hidden)";
    assert_eq!(lines[0], ["--url", shown_url, "flag"]);
    let origin = format!("file {keys} (NOT_IN_THIS_PROCESS_KEYS_FILE)");
    assert_eq!(lines[1], ["--keys", "…", &origin]);
    assert_eq!(lines[2], ["--hosts", "-", "not set"]);
    assert_eq!(lines[3], ["--limit", "7", "default"]);
    assert_eq!(lines.len(), 4);
    assert!(!printed.contains("hunter"));
}

#[test]
fn passwords_are_hidden_in_any_text() {
    for (text, shown) in [
        ("http://user:word@host/", Some("http://…@host/")),
        (
            "postgres://u:a@b/c@host:1x/db",
            Some("postgres://…@host:1x/db"),
        ),
        ("user:word@host", Some("…@host")),
        ("http://user@host", Some("http://…@host")),
        ("http://host/path", None),
        ("somebody@example.com", None),
        ("", None),
    ] {
        assert_eq!(without_password(text).as_deref(), shown, "{text}");
    }
}
