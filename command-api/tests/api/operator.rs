//! The operator's commands against abuse and on credits, run as processes.

use linkledger_testing as testing;
use serde_json::{Value, json};

use crate::{
    cli::{OPERATOR, error, json as run_json, run},
    support::{TestApp, change, create, delete, fresh_key, link, send},
};

/// Returns type, payload and metadata of the latest event.
async fn latest(app: &TestApp) -> (String, Value, Value) {
    let (event_type, payload, metadata): (String, String, String) = sqlx::query_as(
        "SELECT type, payload::text, metadata::text FROM event_store.events
         ORDER BY recorded_at DESC, position DESC LIMIT 1",
    )
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    let value = |text: String| serde_json::from_str(&text).unwrap();
    (event_type, value(payload), value(metadata))
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_account_is_refused_until_resumed() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let url = app.database.url();
    let account = account_id.to_string();
    let suspend = |extra: &[&str]| {
        let reason = ["--reason", "spam, ticket 482"];
        let base = ["account", "suspend", "--account", &account];
        run_json(url, &[&base[..], &reason, extra].concat())
    };

    let suspended = suspend(&[]);
    let expected = json!([account, "suspended", Value::Null, true]);
    let members = ["id", "state", "redirects_stopped", "changed"];
    let members = Value::from_iter(members.map(|name| suspended[name].clone()));
    assert_eq!(members, expected);
    let (event_type, payload, metadata) = latest(&app).await;
    assert_eq!(event_type, "AccountSuspended");
    let expected = json!({
        "account_id": account, "reason": "spam, ticket 482", "stop_redirects": false,
    });
    assert_eq!(payload, expected);
    assert_eq!(metadata["actor"], "operator");
    let after = &metadata["account"];
    assert_eq!(
        (&after["state"], &after["balance"]),
        (&json!("suspended"), &json!(5))
    );
    let refused = send(&app.router, create(&key, fresh_key(), &link("spring"))).await;
    assert_eq!(refused.problem(), "account_suspended");

    // A repetition changes nothing; another value of --stop-redirects does.
    assert_eq!(suspend(&[])["changed"], false);
    assert_eq!(app.count("AccountSuspended").await, 1);
    let stopped = suspend(&["--stop-redirects"]);
    assert_eq!(
        (&stopped["redirects_stopped"], &stopped["changed"]),
        (&json!(true), &json!(true))
    );
    // Another suspension does not put stopped links back into service by the way.
    assert_eq!(suspend(&[])["redirects_stopped"], true);
    assert_eq!(app.count("AccountSuspended").await, 2);

    let resume = [
        "account",
        "resume",
        "--account",
        &account,
        "--reason",
        "cleared",
    ];
    let resumed = run_json(url, &resume);
    assert_eq!(
        (&resumed["state"], &resumed["redirects_stopped"]),
        (&json!("active"), &Value::Null)
    );
    assert_eq!(run_json(url, &resume)["changed"], false);
    assert_eq!(app.count("AccountSuspended").await, 2);
    assert_eq!(app.count("AccountResumed").await, 1);
    // Within 5 seconds; the versions of the account's stream have no gap.
    testing::eventually("the account may call again", || async {
        let answer = send(&app.router, create(&key, fresh_key(), &link("spring"))).await;
        (answer.status == 201).then_some(())
    })
    .await;
    let versions: Vec<i64> = sqlx::query_scalar(
        "SELECT version FROM event_store.events WHERE stream_id = $1 ORDER BY position",
    )
    .bind(account_id.uuid())
    .fetch_all(app.database.pool())
    .await
    .unwrap();
    let consecutive: Vec<i64> = (1..).take(versions.len()).collect();
    assert_eq!(versions, consecutive);
}

fn assert_other_host_names_no_link(url: &str) {
    let elsewhere = "https://example.com/spring";
    let of_other_host = ["link", "disable", "--reason", "x", "--link", elsewhere];
    let unknown =
        "error: there is no link with the short address example.com/spring; check its name\n";
    assert_eq!(error(url, &of_other_host, 4), unknown);
}

/// Asserts what `log` shows of the link that was disabled, changed and enabled, by each of its names.
fn assert_history(url: &str, id: &str, short_url: &str) {
    let shown = run_json(url, &["log", "spring", "--limit", "4"]);
    assert_eq!(run_json(url, &["log", short_url, "--limit", "4"]), shown);
    assert_eq!(run_json(url, &["log", id, "--limit", "4"]), shown);
    let types: Vec<_> = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["type"])
        .collect();
    assert_eq!(types[..3], ["LinkEnabled", "LinkDisabled", "LinkEnabled"]);
    assert_eq!(types[3], "LinkDestinationChanged");
    assert_eq!(shown["events"][0]["actor"], "operator");
    assert_eq!(shown["events"][0]["data"]["reason"], "appeal");
    assert!(
        shown["events"][3]["actor"]
            .as_str()
            .unwrap()
            .starts_with("key_")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn disable_and_enable_accept_id_slug_or_address() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let url = app.database.url();
    let created = send(&app.router, create(&key, fresh_key(), &link("Spring"))).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let disable = [
        "link", "disable", "--link", "SPRING", "--reason", "phishing",
    ];
    let enable = ["link", "enable", "--link", &id, "--reason", "appeal"];

    let mut expected = json!({
        "account_id": account_id.to_string(), "disabled": true, "disabled_by": "operator",
        "changed": true, "replayed": false,
    });
    for name in ["id", "destination_url", "short_url", "created_at"] {
        expected[name] = created.json()[name].clone();
    }
    let mut disabled = run_json(url, &disable);
    let name = disabled.as_object_mut().unwrap().remove("idempotency_key");
    assert!(name.is_some_and(|name| name.is_string()));
    assert_eq!(disabled, expected);
    let (event_type, payload, metadata) = latest(&app).await;
    assert_eq!(event_type, "LinkDisabled");
    let expected = json!({
        "link_id": id, "account_id": account_id.to_string(), "reason": "phishing", "by": "operator",
        "disabled_by": "operator",
    });
    assert_eq!(payload, expected);
    let state = json!({
        "slug": "Spring", "created_at": created.json()["created_at"],
        "destination_url": "https://example.com/", "disabled_by_operator": true,
    });
    let expected = json!({ "actor": "operator", "operator": OPERATOR, "link": state });
    assert_eq!(metadata, expected);
    assert_eq!(run_json(url, &disable)["changed"], false);

    // The owner may still change the link, and the link stays disabled.
    let body = json!({ "destination_url": "https://example.com/new" });
    let changed = send(&app.router, change(&key, &id, &body)).await;
    assert_eq!(
        (changed.status.as_u16(), changed.header("etag")),
        (200, "\"3\"")
    );
    let (_, _, metadata) = latest(&app).await;
    assert_eq!(metadata["link"]["disabled_by_operator"], true);
    assert_eq!(run_json(url, &enable)["disabled_by"], Value::Null);
    assert_eq!(run_json(url, &enable)["changed"], false);

    let short_url = created.json()["short_url"].as_str().unwrap().to_owned();
    let by_address = ["link", "disable", "--reason", "again", "--link", &short_url];
    assert_eq!(run_json(url, &by_address)["disabled_by"], "operator");
    assert_eq!(run_json(url, &enable)["disabled_by"], Value::Null);
    assert_other_host_names_no_link(url);

    assert_history(url, &id, &short_url);

    send(&app.router, delete(&key, &id)).await;
    let expected = format!("error: link {id} is deleted; ");
    let message = error(url, &disable, 4);
    assert!(message.starts_with(&expected), "{message}");
    let shown = run_json(url, &["link", "show", &id]);
    assert_eq!(
        (&shown["deleted"], &shown["id"]),
        (&json!(true), &json!(id))
    );
}

#[tokio::test]
async fn adjustment_applies_once_and_never_below_zero() {
    let app = TestApp::start().await;
    let (account_id, _) = app.account(5).await;
    let (url, account) = (app.database.url(), account_id.to_string());
    let adjust = |amount| {
        let account = [
            "credits",
            "adjust",
            "--account",
            &account,
            "--amount",
            amount,
        ];
        let name = ["--reason", "billed twice", "--idempotency-key", "case-9"];
        [account.to_vec(), name.to_vec()].concat()
    };
    let first = run_json(url, &adjust("-3"));
    assert_eq!(
        (&first["amount"], &first["balance_after"]),
        (&json!(-3), &json!(2))
    );
    let (event_type, payload, _) = latest(&app).await;
    assert_eq!(event_type, "CreditsAdjusted");
    let expected = json!({
        "account_id": account, "amount": -3, "balance_after": 2, "reason": "billed twice",
    });
    assert_eq!(payload, expected);
    let again = run_json(url, &adjust("-3"));
    assert_eq!(
        (&again["replayed"], &again["balance_after"]),
        (&json!(true), &json!(2))
    );
    let message = error(url, &adjust("-2"), 5);
    let expected = "error: this idempotency key was used for another adjust; use a new key\n";
    assert_eq!(message, expected);

    let base = [
        "credits",
        "adjust",
        "--account",
        &account,
        "--reason",
        "x",
        "--amount",
    ];
    let message = error(url, &[&base[..], &["-3"]].concat(), 6);
    let expected = "error: the balance in credits is 2, less than 3; take at most the balance, or \
                    grant credits first\n";
    assert_eq!(message, expected);
    let mut zero = [&base[..], &["0"]].concat();
    for command in ["adjust", "grant"] {
        zero[1] = command;
        let message = error(url, &zero, 2);
        let expected = "give a number of credits other than 0";
        assert!(message.contains(expected), "{message}");
    }
    let mut grant = [&base[..], &["-1"]].concat();
    grant[1] = "grant";
    assert_eq!(
        error(url, &grant, 6),
        "error: the amount must be at least 1; give another number of credits\n"
    );
    assert_eq!(app.balance(account_id).await, 2);
    assert_eq!(app.count("CreditsAdjusted").await, 1);
}

#[tokio::test]
async fn unknown_ids_are_named_in_errors() {
    let app = TestApp::start().await;
    let url = app.database.url();
    let unknown = "00000000000000000000000007";
    for (arguments, message) in [
        (
            [
                "account",
                "suspend",
                "--account",
                &format!("acc_{unknown}"),
                "--reason",
                "x",
            ],
            format!("error: there is no account acc_{unknown}; check the id\n"),
        ),
        (
            [
                "link",
                "disable",
                "--link",
                &format!("lnk_{unknown}"),
                "--reason",
                "x",
            ],
            format!("error: there is no link lnk_{unknown}; check its name\n"),
        ),
        (
            ["link", "enable", "--link", "nowhere", "--reason", "x"],
            "error: there is no link with the slug nowhere; check its name\n".to_owned(),
        ),
    ] {
        assert_eq!(error(url, &arguments, 4), message);
    }
    let nothing = format!("error: nothing has happened to acc_{unknown}; check the id\n");
    assert_eq!(error(url, &["log", &format!("acc_{unknown}")], 1), nothing);
    let unnamed = ["link", "disable", "--reason", "x"];
    assert_eq!(run(url, &unnamed).status.code(), Some(2));
}
