//! `account list`, `account show`, run as processes.

use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use serde_json::{Value, json};

use crate::cli::{error, json, run};

fn create(url: &str, name: &str) -> String {
    let created = json(url, &["account", "create", "--name", name]);
    created["id"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<&str> {
    let accounts = page["accounts"].as_array().unwrap().iter();
    accounts
        .map(|account| account["id"].as_str().unwrap())
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
    let revoked = json(url, &issue)["id"].as_str().unwrap().to_owned();
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
        "state",
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
            Value::Null,
            json!(7),
            json!(1),
            json!(2)
        ]
    );
    assert_eq!(json(url, &["account", "list"])["accounts"], json!([shown]));
    let text = run(url, &["account", "show", &account]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("State       suspended; its links still redirect\n"),
        "{text}"
    );
    assert!(text.contains("Keys        1 valid, 2 issued\n"), "{text}");

    let unknown = error(
        url,
        &["account", "show", "acc_00000000000000000000000000"],
        4,
    );
    assert_eq!(
        unknown,
        "error: there is no account acc_00000000000000000000000000; check the id\n"
    );
}

#[tokio::test]
async fn accounts_are_listed_page_by_page_and_filtered() {
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
        let page = json(url, &["account", "list", "--q", name]);
        assert_eq!(ids(&page), found, "{name}");
        assert_eq!(page["next_after"], Value::Null);
    }
    let none = run(url, &["account", "list", "--q", "nobody"]);
    assert_eq!(none.stdout, b"No account matches.\n");

    let of_seller = ["--external-id", "customers/7"];
    let with_id = ["account", "change", "--account", &created[1]];
    json(url, &[&with_id[..], &of_seller].concat());
    let suspend = [
        "account",
        "suspend",
        "--reason",
        "x",
        "--account",
        &created[1],
    ];
    json(url, &suspend);
    for filter in [
        &of_seller[..],
        &["--q", "OMERS/"],
        &["--state", "suspended"],
    ] {
        let page = json(url, &[&["account", "list"], filter].concat());
        assert_eq!(ids(&page), [&created[1]], "{filter:?}");
    }
    let unknown = error(url, &["account", "list", "--state", "gone"], 2);
    assert!(
        unknown.contains("give one of: active, suspended"),
        "{unknown}"
    );
}
