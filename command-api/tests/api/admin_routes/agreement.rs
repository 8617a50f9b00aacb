//! The command line and the admin API agree: each command that changes something has a request with the same answer and
//! the same events.

use std::collections::{BTreeSet, HashSet};

use clap::{Command, Subcommand as _};
use linkledger_command_api::admin::AdminCommand;
use linkledger_core::timestamp;
use serde_json::{Value, json};

use super::{
    fixture::{ACCOUNTS, AdminApp, text},
    routes,
};
use crate::{
    cli,
    support::{create, fresh_key, link, send},
};

/// Commands for which the admin API has requests.
const GROUPS: [&str; 4] = ["account", "key", "credits", "link"];

/// A command, and the request that does the same.
struct Pair {
    /// Arguments, separated by single spaces.
    command: String,
    method: &'static str,
    path: String,
    body: Value,
}

impl Pair {
    const fn new(command: String, method: &'static str, path: String, body: Value) -> Self {
        Self {
            command,
            method,
            path,
            body,
        }
    }
}

/// Ids of what the commands change.
#[derive(Default)]
struct Subjects {
    account: String,
    key: String,
    link: String,
    charge: String,
    grant: String,
}

fn pairs(subjects: &Subjects) -> Vec<Pair> {
    let pairs = [of_accounts, of_keys, of_credits, of_links];
    pairs.iter().flat_map(|of| of(subjects)).collect()
}

fn of_accounts(Subjects { account, .. }: &Subjects) -> Vec<Pair> {
    let path = format!("{ACCOUNTS}/{account}");
    let change = format!("account change --account {account}");
    let reason = format!("--account {account} --reason spam");
    vec![
        Pair::new(
            "account create --name Shop --external-id customers/1".to_owned(),
            "POST",
            ACCOUNTS.to_owned(),
            json!({ "name": "Shop", "external_id": "customers/1" }),
        ),
        Pair::new(
            format!("{change} --name Mall --external-id customers/2"),
            "PATCH",
            path.clone(),
            json!({ "name": "Mall", "external_id": "customers/2" }),
        ),
        Pair::new(
            format!("{change} --no-external-id"),
            "PATCH",
            path.clone(),
            json!({ "external_id": null }),
        ),
        Pair::new(
            "account create --name Mall --low-balance-at 100,10".to_owned(),
            "POST",
            ACCOUNTS.to_owned(),
            json!({ "name": "Mall", "low_balance_at": [100, 10] }),
        ),
        Pair::new(
            format!("{change} --low-balance-at 10,100"),
            "PATCH",
            path.clone(),
            json!({ "low_balance_at": [10, 100] }),
        ),
        Pair::new(
            format!("{change} --no-low-balance-at"),
            "PATCH",
            path.clone(),
            json!({ "low_balance_at": [] }),
        ),
        Pair::new(
            format!("account suspend {reason} --stop-redirects"),
            "POST",
            format!("{path}/suspend"),
            json!({ "reason": "spam", "stop_redirects": true }),
        ),
        Pair::new(
            format!("account resume {reason}"),
            "POST",
            format!("{path}/resume"),
            json!({ "reason": "spam" }),
        ),
    ]
}

fn of_keys(Subjects { account, key, .. }: &Subjects) -> Vec<Pair> {
    let path = format!("/admin/v1/keys/{key}");
    let scopes = "link:links.read,link:clicks.read";
    vec![
        Pair::new(
            format!(
                "key issue --account {account} --scope {scopes} --name shop --expires-at 2098-01-01T00:00:00Z"
            ),
            "POST",
            format!("{ACCOUNTS}/{account}/keys"),
            json!({
                "scopes": ["link:links.read", "link:clicks.read"], "name": "shop",
                "expires_at": "2098-01-01T00:00:00Z",
            }),
        ),
        Pair::new(
            format!(
                "key change {key} --scope link:links.write --name web --expires-at 2099-01-01T00:00:00Z"
            ),
            "PATCH",
            path.clone(),
            json!({
                "scopes": ["link:links.write"], "name": "web", "expires_at": "2099-01-01T00:00:00Z",
            }),
        ),
        Pair::new(
            format!("key change {key} --no-expires-at"),
            "PATCH",
            path.clone(),
            json!({ "expires_at": null }),
        ),
        Pair::new(
            format!("key rotate {key} --overlap-seconds 60"),
            "POST",
            format!("{path}/rotate"),
            json!({ "overlap_seconds": 60 }),
        ),
        Pair::new(format!("key revoke {key}"), "DELETE", path, json!({})),
    ]
}

fn of_credits(subjects: &Subjects) -> Vec<Pair> {
    let Subjects {
        account,
        charge,
        grant,
        ..
    } = subjects;
    let pair = |command: &str, operation: &str, body: Value| {
        let (name, arguments) = command.split_once(' ').unwrap();
        let command = format!("credits {name} --account {account} --reason ticket {arguments}");
        let path = format!("{ACCOUNTS}/{account}/{operation}");
        Pair::new(command, "POST", path, body)
    };
    let balance = json!({ "balance": 9, "reason": "ticket" });
    vec![
        pair(
            "grant --amount 5 --reference INV-7 --description Starter",
            "grants",
            json!({ "amount": 5, "reason": "ticket", "reference": "INV-7", "description": "Starter" }),
        ),
        pair(
            "adjust --amount -1",
            "adjustments",
            json!({ "amount": -1, "reason": "ticket" }),
        ),
        pair("set-balance --balance 9", "balance", balance.clone()),
        // To what it is.
        pair("set-balance --balance 9", "balance", balance),
        pair(
            &format!("refund --entry {charge}"),
            "refunds",
            json!({ "entry": charge, "reason": "ticket" }),
        ),
        pair(
            &format!("revoke --grant {grant}"),
            "revocations",
            json!({ "grant": grant, "reason": "ticket" }),
        ),
    ]
}

fn of_links(Subjects { link, .. }: &Subjects) -> Vec<Pair> {
    let pairs = ["disable", "enable"].map(|verb| {
        Pair::new(
            format!("link {verb} --link {link} --reason phishing"),
            "POST",
            format!("/admin/v1/links/{link}/{verb}"),
            json!({ "reason": "phishing" }),
        )
    });
    pairs.into()
}

/// A service of its own, on which either the commands or the requests run.
struct Side {
    admin: AdminApp,
    subjects: Subjects,
    /// Ids of the events that were read.
    read: HashSet<String>,
}

impl Side {
    async fn start() -> Self {
        let admin = AdminApp::start().await;
        let account = admin.account().await;
        let grant = admin.grant(&account, 5).await;
        let api_key = admin.api_key(&account).await;
        let create = create(&api_key, fresh_key(), &link("spring"));
        let created = send(&admin.app.router, create).await.json();
        let key = json!({ "scopes": ["link:links.read"] });
        let key = admin.done("POST", &format!("{account}/keys"), &key).await;
        let subjects = Subjects {
            account: account.rsplit('/').next().unwrap().to_owned(),
            key: text(&key["id"]).to_owned(),
            link: text(&created["id"]).to_owned(),
            charge: routes::charge(&admin).await.to_string(),
            grant: text(&grant["id"]).to_owned(),
        };
        let mut side = Self {
            admin,
            subjects,
            read: HashSet::new(),
        };
        side.new_events().await;
        side
    }

    /// Runs the command, and returns what the answer to the request has too.
    fn run(&self, pair: &Pair) -> Value {
        let arguments: Vec<&str> = pair.command.split(' ').collect();
        let mut printed = cli::json(self.admin.app.database.url(), &arguments);
        let members = printed.as_object_mut().unwrap();
        assert_eq!(members.remove("changed"), Some(json!(true)));
        assert_eq!(members.remove("replayed"), Some(json!(false)));
        members.remove("idempotency_key");
        normal(printed)
    }

    async fn request(&self, pair: &Pair) -> Value {
        normal(self.admin.done(pair.method, &pair.path, &pair.body).await)
    }

    /// Returns types and payloads of the events since the last call.
    async fn new_events(&mut self) -> Vec<(String, Value)> {
        let events: Vec<(String, String, String)> = sqlx::query_as(
            "SELECT event_id::text, type, payload::text FROM event_store.events
             ORDER BY recorded_at, shard, position",
        )
        .fetch_all(self.admin.app.database.pool())
        .await
        .unwrap();
        let new = events
            .into_iter()
            .filter(|(event_id, ..)| self.read.insert(event_id.clone()));
        let payload = |payload: String| normal(serde_json::from_str(&payload).unwrap());
        new.map(|(_, event_type, stored)| (event_type, payload(stored)))
            .collect()
    }
}

/// Returns the value without ids, secrets and instants.
fn normal(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(normal_text(text)),
        Value::Array(values) => values.into_iter().map(normal).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members.map(|(name, value)| (name, normal(value))).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

fn normal_text(text: String) -> String {
    if timestamp::parse(&text).is_some() {
        return "an instant".to_owned();
    }
    match text.split_once('_') {
        Some((kind @ ("acc" | "key" | "lnk" | "ent" | "llk"), _)) => format!("{kind}_"),
        _ => text,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_line_and_admin_api_agree_command_by_command() {
    let (mut commanded, mut requested) = (Side::start().await, Side::start().await);
    let commands = pairs(&commanded.subjects).into_iter();
    for (command, request) in commands.zip(pairs(&requested.subjects)) {
        let printed = commanded.run(&command);
        let answered = requested.request(&request).await;
        assert_eq!(printed, answered, "{}", command.command);
        let events = commanded.new_events().await;
        assert!(!events.is_empty(), "{}", command.command);
        assert_eq!(events, requested.new_events().await, "{}", command.command);
    }
}

#[test]
fn every_command_that_changes_something_is_compared() {
    let pairs = pairs(&Subjects::default());
    let name = |pair: &Pair| {
        let words: Vec<&str> = pair.command.split(' ').take(2).collect();
        words.join(" ")
    };
    let compared: BTreeSet<String> = pairs.iter().map(name).collect();
    let tree = AdminCommand::augment_subcommands(Command::new("command-api"));
    let mut changing = BTreeSet::new();
    for group in tree.get_subcommands() {
        let name = group.get_name();
        if GROUPS.contains(&name) {
            let commands = group.get_subcommands().filter(|it| changes_something(it));
            changing.extend(commands.map(|command| format!("{name} {}", command.get_name())));
        }
    }
    assert_eq!(compared, changing);
}

/// Returns true if the command records who runs it.
fn changes_something(command: &Command) -> bool {
    let mut arguments = command.get_arguments();
    arguments.any(|argument| argument.get_id().as_str() == "operator")
}
