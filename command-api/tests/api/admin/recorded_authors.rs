//! Every command that changes something is on record with its author.

use linkledger_command_api::admin::{
    Author, Request,
    account::{self, NewAccount},
};
use linkledger_core::{clock::SystemClock, id::AdminKeyId};
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use super::{events, new_account, text};
use crate::cli::{self, json as run_json};

/// Returns type and metadata of the event that was appended last.
async fn latest(pool: &PgPool, number: i64) -> (String, Value) {
    let events: i64 = sqlx::query_scalar("SELECT count(*) FROM event_store.events")
        .fetch_one(pool)
        .await
        .unwrap();
    assert_eq!(events, number);
    let (event_type, metadata): (String, String) = sqlx::query_as(
        "SELECT type, metadata::text FROM event_store.events
         ORDER BY recorded_at DESC, position DESC LIMIT 1",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    (event_type, serde_json::from_str(&metadata).unwrap())
}

/// Runs commands on one account, and checks the author of the event of each.
struct Recorded<'a> {
    database: &'a TestDatabase,
    account: &'a str,
    events: i64,
}

impl Recorded<'_> {
    /// Runs a command with the operator's name on the command line, and returns its JSON.
    async fn run(&mut self, command: &[&str], event_type: &str) -> Value {
        let operator = ["--operator", "ada"];
        let of_account = ["--account", self.account];
        let has_account = matches!(command[0], "account" | "credits") || command[1] == "issue";
        let of_account: &[&str] = if has_account { &of_account } else { &[] };
        let done = run_json(
            self.database.url(),
            &[command, of_account, &operator].concat(),
        );
        self.events += 1;
        let (recorded_type, metadata) = latest(self.database.pool(), self.events).await;
        assert_eq!(recorded_type, event_type);
        let author = json!([metadata["actor"], metadata["operator"]]);
        assert_eq!(author, json!(["operator", "ada"]), "{command:?}");
        done
    }
}

#[tokio::test]
async fn each_command_on_accounts_and_credits_names_its_author() {
    let database = TestDatabase::create().await;
    let account_id = new_account(database.pool(), 0).await;
    let account = account_id.to_string();
    let mut recorded = Recorded {
        database: &database,
        account: &account,
        events: 1,
    };
    let reason = ["--reason", "ticket 9"];
    recorded
        .run(
            &["account", "change", "--name", "Acme Ltd"],
            "AccountChanged",
        )
        .await;
    let suspend = [&["account", "suspend"], &reason[..]].concat();
    recorded.run(&suspend, "AccountSuspended").await;
    let resume = [&["account", "resume"], &reason[..]].concat();
    recorded.run(&resume, "AccountResumed").await;
    let grant = [&["credits", "grant", "--amount", "5"], &reason[..]].concat();
    let granted = recorded.run(&grant, "CreditsGranted").await;
    let adjust = [&["credits", "adjust", "--amount", "-1"], &reason[..]].concat();
    recorded.run(&adjust, "CreditsAdjusted").await;
    let set = [&["credits", "set-balance", "--balance", "9"], &reason[..]].concat();
    recorded.run(&set, "CreditsAdjusted").await;
    let revoke = [
        &["credits", "revoke", "--grant", text(&granted["id"])],
        &reason[..],
    ]
    .concat();
    recorded.run(&revoke, "CreditsRevoked").await;

    let links = [("spring", "https://example.com/")];
    testing::append_links(database.pool(), account_id, &links).await;
    recorded.events += 2;
    let disable = [&["link", "disable", "--link", "spring"], &reason[..]].concat();
    recorded.run(&disable, "LinkDisabled").await;
    let enable = [&["link", "enable", "--link", "spring"], &reason[..]].concat();
    recorded.run(&enable, "LinkEnabled").await;
}

#[tokio::test]
async fn each_command_on_keys_names_its_author() {
    let database = TestDatabase::create().await;
    let account = new_account(database.pool(), 0).await.to_string();
    let mut recorded = Recorded {
        database: &database,
        account: &account,
        events: 1,
    };
    let issue = ["key", "issue", "--scope", "link:links.read"];
    let issued = recorded.run(&issue, "ApiKeyIssued").await;
    let key = text(&issued["id"]);
    let add = ["key", "change", key, "--add-scope", "link:clicks.read"];
    recorded.run(&add, "ApiKeyChanged").await;
    // The issue of the new key is an event too.
    recorded.events += 1;
    recorded.run(&["key", "rotate", key], "ApiKeyRotated").await;
    recorded.run(&["key", "revoke", key], "ApiKeyRevoked").await;
    let issued = events(database.pool(), "ApiKeyIssued").await;
    assert_eq!(issued[1].1["operator"], "ada");
}

#[tokio::test]
async fn creation_names_operator_of_environment() {
    let database = TestDatabase::create().await;
    run_json(database.url(), &["account", "create", "--name", "Acme"]);
    let (_, metadata) = &events(database.pool(), "AccountCreated").await[0];
    assert_eq!(metadata["operator"], cli::OPERATOR);
}

#[tokio::test]
async fn request_with_admin_key_names_the_key() {
    let database = TestDatabase::create().await;
    let key_id = AdminKeyId::from_uuid(Uuid::from_u128(7));
    let request = Request::new(database.pool(), &SystemClock, &Author::AdminKey(key_id));
    let new = NewAccount {
        name: "Acme".to_owned(),
        external_id: None,
        low_balance_at: None,
    };
    account::create(&request, &new).await.unwrap();
    let (_, metadata) = &events(database.pool(), "AccountCreated").await[0];
    assert_eq!(metadata["actor"], key_id.to_string());
    assert_eq!(metadata["operator"], Value::Null);
}

#[tokio::test]
async fn admin_keys_name_who_has_issued_and_revoked_them() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let issue = ["admin-key", "issue", "--name", "billing"];
    let scopes = ["--scope", "admin:credits,admin:read"];
    let issued = run_json(url, &[&issue[..], &scopes].concat());
    assert_eq!(issued["scopes"], json!(["admin:read", "admin:credits"]));
    let secret = text(&issued["secret"]);
    assert!(secret.starts_with("lla_"), "{secret}");
    let key = text(&issued["id"]);
    let revoke = ["admin-key", "revoke", key];
    let first = run_json(url, &[&revoke[..], &["--operator", "ada"]].concat());
    assert_eq!(run_json(url, &revoke), first, "an earlier revocation stays");
    let listed = run_json(url, &["admin-key", "list"]);
    let members = ["id", "name", "created_by", "revoked_by", "revoked_at"];
    let members = Value::from_iter(members.map(|name| listed[0][name].clone()));
    let expected = json!([key, "billing", cli::OPERATOR, "ada", first["revoked_at"]]);
    assert_eq!(members, expected);
    assert!(!listed.to_string().contains(secret));
}
