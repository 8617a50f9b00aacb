//! Creation and changes of accounts: `account create|change|suspend|resume` and their functions.

use std::collections::BTreeSet;

use futures::future::join_all;
use linkledger_command_api::admin::{
    AdminError, AdminRefusal,
    account::{self, NewAccount},
};
use linkledger_core::{account::AccountChangeRequest, change::ValueUpdate};
use linkledger_testing::TestDatabase;
use serde_json::{Value, json};

use super::{events, new_account, payloads, request, text};
use crate::cli::{self, error, json as run_json, problem};

fn create<'a>(name: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [&["account", "create", "--name", name], further].concat()
}

fn new(name: &str, external_id: Option<&str>) -> NewAccount {
    NewAccount {
        name: name.to_owned(),
        external_id: external_id.map(str::to_owned),
        low_balance_at: None,
    }
}

#[tokio::test]
async fn account_is_created_once_per_key() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let once = [
        "--external-id",
        "customers/7",
        "--idempotency-key",
        "shop 7",
    ];
    let first = run_json(url, &create("Acme", &once));
    let expected = json!({
        "id": first["id"], "external_id": "customers/7", "name": "Acme", "state": "active",
        "balance": 0, "low_balance_at": [], "created_at": first["created_at"],
        "changed": true, "replayed": false, "idempotency_key": "shop 7",
    });
    assert_eq!(first, expected);
    let created = events(database.pool(), "AccountCreated").await;
    let id = text(&first["id"]);
    let expected = json!({ "account_id": id, "name": "Acme", "external_id": "customers/7" });
    assert_eq!(created[0].0, expected);

    // The answer is that of the creation, whatever has happened since.
    let change = ["account", "change", "--account", id, "--name", "Acme Ltd"];
    run_json(url, &change);
    let again = run_json(url, &create("Acme", &once));
    for name in ["id", "name", "created_at"] {
        assert_eq!(again[name], first[name]);
    }
    assert_eq!(
        (&again["changed"], &again["replayed"]),
        (&json!(false), &json!(true))
    );
    let other = problem(url, &create("Other", &once), 5);
    assert_eq!(other["code"], "idempotency_key_reused");
    assert_eq!(events(database.pool(), "AccountCreated").await.len(), 1);

    let taken = create("Other", &["--external-id", "customers/7"]);
    let expected = format!(
        "error: account {id} has this external id; change that account, or choose another id\n"
    );
    assert_eq!(error(url, &taken, 5), expected);
    assert_eq!(problem(url, &taken, 5)["code"], "external_id_taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creations_with_one_external_id_make_one_account() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let new = new("Acme", Some("customers/7"));
    let creations = (0..8).map(|number| {
        let request = request(pool).once(format!("request {number}"));
        let new = &new;
        async move { account::create(&request, new).await }
    });
    let mut created = Vec::new();
    let mut refused = Vec::new();
    for outcome in join_all(creations).await {
        match outcome {
            Ok(done) => created.push(done.value.id),
            Err(AdminError::Refused(AdminRefusal::ExternalIdTaken { account_id })) => {
                refused.push(account_id);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(created.len(), 1);
    assert_eq!(refused, vec![created[0]; 7]);
    assert_eq!(events(pool, "AccountCreated").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creations_with_one_key_make_one_account() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    for external_id in [None, Some("customers/7")] {
        let new = new("Acme", external_id);
        let key = format!("{external_id:?}");
        let creations = (0..8).map(|_| {
            let (request, new) = (request(pool).once(key.as_str()), &new);
            async move { account::create(&request, new).await.unwrap() }
        });
        let created = join_all(creations).await;
        let ids: BTreeSet<_> = created.iter().map(|done| done.value.id).collect();
        assert_eq!(ids.len(), 1);
        let first = created.iter().filter(|done| !done.replayed).count();
        assert_eq!(first, 1, "one request has created the account");
        let bodies = created
            .iter()
            .map(|done| serde_json::to_string(&done.value).unwrap());
        assert_eq!(bodies.collect::<BTreeSet<_>>().len(), 1, "byte for byte");
    }
    assert_eq!(events(pool, "AccountCreated").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_upserts_create_one_account() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let upserts = (0..8).map(|number| {
        let request = request(pool);
        let name = format!("Acme {}", number % 2);
        async move {
            account::upsert(&request, "customers/7", &name, None)
                .await
                .unwrap()
        }
    });
    let upserted = join_all(upserts).await;
    let ids: BTreeSet<_> = upserted.iter().map(|(done, _)| done.value.id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(upserted.iter().filter(|(_, created)| *created).count(), 1);
    let request = request(pool);
    let (renamed, created) = account::upsert(&request, "customers/7", "Last", None)
        .await
        .unwrap();
    assert_eq!((renamed.value.name.as_str(), created), ("Last", false));
    let (same, _) = account::upsert(&request, "customers/7", "Last", None)
        .await
        .unwrap();
    assert_eq!((same.value.name.as_str(), same.position), ("Last", None));
}

#[tokio::test]
async fn account_is_changed_and_changes_are_recorded() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 3).await.to_string();
    let change = |further: &[&str]| {
        let base = ["account", "change", "--account", &account];
        run_json(url, &[&base[..], further].concat())
    };
    let changed = change(&["--name", "Acme Ltd", "--external-id", "customers/7"]);
    assert_eq!(changed["external_id"], "customers/7");
    assert_eq!(
        (&changed["balance"], &changed["changed"]),
        (&json!(3), &json!(true))
    );
    let same = change(&["--name", "Acme Ltd"]);
    assert_eq!(same["changed"], false);
    let removed = change(&["--no-external-id"]);
    assert_eq!(removed["external_id"], Value::Null);

    let recorded = events(pool, "AccountChanged").await;
    let payloads: Vec<&Value> = recorded
        .iter()
        .map(|(payload, _)| &payload["changes"])
        .collect();
    let first = json!({
        "name": { "from": "Acme", "to": "Acme Ltd" },
        "external_id": { "to": "customers/7" },
    });
    assert_eq!(
        payloads,
        [&first, &json!({ "external_id": { "from": "customers/7" } })]
    );
    let after = &recorded[0].1["account"];
    assert_eq!(
        (&after["name"], &after["balance"]),
        (&json!("Acme Ltd"), &json!(3))
    );
}

#[tokio::test]
async fn thresholds_are_given_and_taken_away() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let created = run_json(url, &create("Acme", &["--low-balance-at", "100, 10,100"]));
    assert_eq!(created["low_balance_at"], json!([10, 100]));
    let account = text(&created["id"]);
    let recorded = events(database.pool(), "AccountCreated").await;
    assert_eq!(recorded[0].0["low_balance_at"], json!([10, 100]));
    let change = |further: &[&str]| {
        let base = ["account", "change", "--account", account];
        run_json(url, &[&base[..], further].concat())
    };
    let changed = change(&["--low-balance-at", "7"]);
    assert_eq!(changed["low_balance_at"], json!([7]));
    assert_eq!(change(&["--low-balance-at", "7"])["changed"], false);
    assert_eq!(change(&["--name", "Shop"])["low_balance_at"], json!([7]));
    let shown = cli::run(url, &["account", "show", account]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("Low balance 7\n"), "{shown}");
    let removed = change(&["--no-low-balance-at"]);
    assert_eq!(removed["low_balance_at"], json!([]));
    let recorded = payloads(database.pool(), "AccountChanged").await;
    let of_thresholds = recorded
        .iter()
        .map(|it| it["changes"]["low_balance_at"].clone());
    let expected = [
        json!({ "from": [10, 100], "to": [7] }),
        Value::Null,
        json!({ "from": [7], "to": [] }),
    ];
    assert_eq!(of_thresholds.collect::<Vec<_>>(), expected);
    for wrong in ["0", "x", "", "1,2,3,4,5,6"] {
        let refused = cli::run(url, &create("Acme", &["--low-balance-at", wrong]));
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}: {refused:?}");
    }
}

#[tokio::test]
async fn external_id_of_another_account_is_refused() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let request = request(pool);
    let holder = account::create(&request, &new("Acme", Some("customers/7"))).await;
    let holder = holder.unwrap().value.id;
    let other = new_account(pool, 0).await;
    let wanted = AccountChangeRequest {
        name: Some("Other".to_owned()),
        external_id: ValueUpdate::Set("customers/7".to_owned()),
        low_balance_at: None,
    };
    let refused = account::change(&request, other, &wanted).await.unwrap_err();
    let is_taken = matches!(
        refused,
        AdminError::Refused(AdminRefusal::ExternalIdTaken { account_id }) if account_id == holder
    );
    assert!(is_taken, "{refused:?}");
    assert_eq!(payloads(pool, "AccountChanged").await, Vec::<Value>::new());
    // An account may keep the id that it has.
    let kept = account::change(&request, holder, &wanted).await.unwrap();
    assert_eq!(kept.value.name, "Other");
}

#[tokio::test]
async fn replayed_suspension_shows_the_account_as_it_was() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account = new_account(database.pool(), 3).await.to_string();
    let suspend = |key: &str, reason: &str| {
        let subject = [
            "account",
            "suspend",
            "--account",
            &account,
            "--stop-redirects",
        ];
        let arguments = ["--reason", reason, "--idempotency-key", key];
        cli::run(url, &[&subject[..], &arguments, &["--json"]].concat())
    };
    let resume = [
        "account",
        "resume",
        "--account",
        &account,
        "--reason",
        "cleared",
    ];
    let first: Value = serde_json::from_slice(&suspend("case-9", "spam").stdout).unwrap();
    assert_eq!(
        (&first["state"], &first["redirects_stopped"]),
        (&json!("suspended"), &json!(true))
    );
    assert_eq!(run_json(url, &resume)["state"], "active");

    let again: Value = serde_json::from_slice(&suspend("case-9", "spam").stdout).unwrap();
    assert_eq!(
        (&again["state"], &again["replayed"]),
        (&json!("suspended"), &json!(true))
    );
    assert_eq!(
        run_json(url, &["account", "show", &account])["state"],
        "active"
    );
    let other = suspend("case-9", "phishing");
    assert_eq!(other.status.code(), Some(5), "{other:?}");
    assert_eq!(payloads(database.pool(), "AccountSuspended").await.len(), 1);
}
