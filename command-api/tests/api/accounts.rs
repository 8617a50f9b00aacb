//! `account list`, `account show`, run as processes.

use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use serde_json::{Value, json};

use crate::cli::{error, json, run};

fn create(url: &str, name: &str) -> String {
    let created = json(url, &["account", "create", "--name", name]);
    created["account_id"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<&str> {
    let accounts = page["accounts"].as_array().unwrap().iter();
    accounts
        .map(|account| account["account_id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn account_is_shown_with_balance_status_and_keys() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account = testing::account(database.pool(), 7).await.to_string();
    let issue = [
        "key",
        "issue",
        "--account",
        &account,
        "--scope",
        "link:links.read",
    ];
    json(url, &issue);
    let revoked = json(url, &issue)["key_id"].as_str().unwrap().to_owned();
    json(url, &["key", "revoke", &revoked]);
    let suspend = [
        "account",
        "suspend",
        "--account",
        &account,
        "--reason",
        "spam",
    ];
    json(url, &suspend);

    let shown = json(url, &["account", "show", &account]);
    let members = [
        "status",
        "redirects_stopped",
        "balance",
        "valid_keys",
        "issued_keys",
    ];
    let values = members.map(|name| shown[name].clone());
    assert_eq!(
        values,
        [
            json!("suspended"),
            json!(false),
            json!(7),
            json!(1),
            json!(2)
        ]
    );
    assert_eq!(json(url, &["account", "list"])["accounts"], json!([shown]));
    let text = run(url, &["account", "show", &account]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("Status   suspended; its links still redirect\n"),
        "{text}"
    );
    assert!(text.contains("Keys     1 valid, 2 issued\n"), "{text}");

    let unknown = error(
        url,
        &["account", "show", "acc_00000000000000000000000000"],
        1,
    );
    assert_eq!(
        unknown,
        "error: there is no account acc_00000000000000000000000000\n"
    );
}

#[tokio::test]
async fn accounts_are_listed_page_by_page_and_by_name() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let names = ["Acme", "100 % Söhne", "ACME Süd", "other"];
    let created = names.map(|name| create(url, name));
    let mut listed = Vec::new();
    let mut page = json(url, &["account", "list", "--limit", "3"]);
    while let Some(after) = page["next_after"].as_str().map(str::to_owned) {
        listed.extend(ids(&page).into_iter().map(str::to_owned));
        page = json(url, &["account", "list", "--limit", "3", "--after", &after]);
    }
    listed.extend(ids(&page).into_iter().map(str::to_owned));
    assert_eq!(listed, created);

    for (name, found) in [
        ("acme", vec![&created[0], &created[2]]),
        ("me s", vec![&created[2]]),
        ("%", vec![&created[1]]),
        ("nobody", vec![]),
    ] {
        let page = json(url, &["account", "list", "--name", name]);
        assert_eq!(ids(&page), found, "{name}");
        assert_eq!(page["next_after"], Value::Null);
    }
    let none = run(url, &["account", "list", "--name", "nobody"]);
    assert_eq!(none.stdout, b"No account has `nobody` in its name.\n");
}
