//! Credits: `credits grant|set-balance|refund|revoke` and their functions.

use futures::future::join_all;
use linkledger_command_api::admin::{AdminError, AdminRefusal, credits};
use linkledger_core::id::EntryId;
use linkledger_testing::{self as testing, TestDatabase};
use serde_json::{Value, json};

use super::{new_account, payloads, request, text};
use crate::cli::{error, json as run_json, problem};

fn grant<'a>(account: &'a str, amount: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let reason = ["--amount", amount, "--reason", "invoice 7"];
    [
        &["credits", "grant", "--account", account],
        &reason[..],
        further,
    ]
    .concat()
}

/// Returns a command on an entry or a balance of the account.
fn command<'a>(verb: &'a str, account: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let reason = ["--account", account, "--reason", "ticket 9"];
    [&["credits", verb], &reason[..], further].concat()
}

#[tokio::test]
async fn grant_with_key_is_made_once() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 0).await.to_string();
    let told = ["--reference", "INV-7", "--description", "Starter pack"];
    let once = [&told[..], &["--idempotency-key", "invoice-7"]].concat();
    let first = run_json(url, &grant(&account, "5", &once));
    let expected = json!({
        "id": first["id"], "type": "grant", "amount": 5, "balance_after": 5, "reason": "invoice 7",
        "reference": "INV-7", "description": "Starter pack", "created_at": first["created_at"],
        "changed": true, "replayed": false, "idempotency_key": "invoice-7",
    });
    assert_eq!(first, expected);
    let again = run_json(url, &grant(&account, "5", &once));
    assert_eq!(
        (&again["id"], &again["replayed"]),
        (&first["id"], &json!(true))
    );
    let expected = "error: this idempotency key was used for another grant; use a new key\n";
    assert_eq!(error(url, &grant(&account, "6", &once), 5), expected);
    let recorded = payloads(pool, "CreditsGranted").await;
    let expected = json!({
        "account_id": account, "amount": 5, "balance_after": 5, "reason": "invoice 7",
        "reference": "INV-7", "description": "Starter pack",
    });
    assert_eq!(recorded, [expected]);
}

#[tokio::test]
async fn balance_is_set_by_one_adjustment() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 5).await.to_string();
    let set = command(
        "set-balance",
        &account,
        &["--balance", "3", "--idempotency-key", "k"],
    );
    let first = run_json(url, &set);
    let members = ["type", "amount", "balance_after"].map(|name| first[name].clone());
    assert_eq!(members, [json!("adjustment"), json!(-2), json!(3)]);
    assert_eq!(run_json(url, &set)["replayed"], true);
    let other = command(
        "set-balance",
        &account,
        &["--balance", "4", "--idempotency-key", "k"],
    );
    assert_eq!(problem(url, &other, 5)["code"], "idempotency_key_reused");
    // A key is used also at the same balance: a late retry changes nothing.
    let same = command(
        "set-balance",
        &account,
        &["--balance", "3", "--idempotency-key", "same"],
    );
    let first = run_json(url, &same);
    let members = ["amount", "balance_after", "changed"].map(|name| first[name].clone());
    assert_eq!(members, [json!(0), json!(3), json!(true)]);
    run_json(url, &grant(&account, "5", &[]));
    let late = run_json(url, &same);
    assert_eq!(
        (&late["id"], &late["replayed"]),
        (&first["id"], &json!(true))
    );
    let shown = run_json(url, &["account", "show", &account]);
    assert_eq!(shown["balance"], 8);
    assert_eq!(payloads(pool, "CreditsAdjusted").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_balances_end_at_one_of_them() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = new_account(pool, 5).await;
    let settings = (10..16).map(|balance| {
        let request = request(pool);
        async move {
            credits::set_balance(&request, account_id, balance, "test")
                .await
                .unwrap()
        }
    });
    let entries = join_all(settings).await.into_iter().map(|done| done.value);
    let mut entries: Vec<_> = entries.collect();
    let last = payloads(pool, "CreditsAdjusted").await.pop().unwrap();
    entries.sort_by_key(|entry| entry.balance_after);
    let balances: Vec<i64> = entries.iter().map(|entry| entry.balance_after).collect();
    assert_eq!(
        balances,
        (10..16).collect::<Vec<_>>(),
        "each is what was asked for"
    );
    let sum: i64 = 5 + entries.iter().map(|entry| entry.amount).sum::<i64>();
    assert_eq!(last["balance_after"], sum);
}

#[tokio::test]
async fn charge_is_refunded_once() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account_id = new_account(pool, 5).await;
    let account = account_id.to_string();
    let links = [("spring", "https://example.com/")];
    testing::append_links(pool, account_id, &links).await;
    let charges = charges(&database).await;
    let [(charge, amount)] = &charges[..] else {
        panic!("{charges:?}")
    };
    let refund = command(
        "refund",
        &account,
        &["--entry", charge, "--idempotency-key", "k"],
    );
    let refunded = run_json(url, &refund);
    let expected = [json!("refund"), json!(amount), json!(5), json!(charge)];
    let members = ["type", "amount", "balance_after", "refunds"];
    assert_eq!(members.map(|name| refunded[name].clone()), expected);
    assert_eq!(run_json(url, &refund)["replayed"], true);

    let again = command("refund", &account, &["--entry", charge]);
    let expected =
        format!("error: the charge {charge} was given back before; nothing is left to do\n");
    assert_eq!(error(url, &again, 5), expected);
    assert_eq!(problem(url, &again, 5)["code"], "already_refunded");
    let grant = text(&refunded["id"]);
    let of_refund = command("refund", &account, &["--entry", grant]);
    let expected = format!("error: entry {grant} is not a charge; a refund gives back a charge\n");
    assert_eq!(error(url, &of_refund, 4), expected);
    let stranger = new_account(pool, 0).await.to_string();
    let of_other = command("refund", &stranger, &["--entry", charge]);
    assert_eq!(problem(url, &of_other, 4)["code"], "entry_not_found");
    assert_eq!(payloads(pool, "CreditsRefunded").await.len(), 1);
}

/// Returns entry and amount of each charge.
async fn charges(database: &TestDatabase) -> Vec<(String, i64)> {
    let rows: Vec<(uuid::Uuid, i64)> = sqlx::query_as(
        "SELECT event_id, (payload->>'amount')::bigint FROM event_store.events
         WHERE type = 'CreditsCharged'",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    rows.into_iter()
        .map(|(event_id, amount)| (EntryId::from_uuid(event_id).to_string(), amount))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_refunds_give_a_charge_back_once() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = new_account(pool, 5).await;
    let links = [("spring", "https://example.com/")];
    testing::append_links(pool, account_id, &links).await;
    let charge: EntryId = charges(&database).await[0].0.parse().unwrap();
    let refunds = (0..6).map(|number| {
        let request = request(pool).once(format!("request {number}"));
        async move { credits::refund(&request, account_id, charge, "test").await }
    });
    let mut refunded = 0;
    for outcome in join_all(refunds).await {
        match outcome {
            Ok(_) => refunded += 1,
            Err(AdminError::Refused(AdminRefusal::AlreadyRefunded(entry))) => {
                assert_eq!(entry, charge);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(refunded, 1);
    assert_eq!(payloads(pool, "CreditsRefunded").await.len(), 1);
}

#[tokio::test]
async fn revocation_takes_what_is_left_and_once() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 0).await.to_string();
    let granted = run_json(url, &grant(&account, "5", &[]));
    let id = text(&granted["id"]);
    run_json(url, &command("set-balance", &account, &["--balance", "2"]));
    let revoke = command("revoke", &account, &["--grant", id]);
    let revoked = run_json(url, &revoke);
    let members = [
        "type",
        "amount",
        "asked",
        "taken",
        "short",
        "balance_after",
        "grant",
    ];
    let expected = json!(["revocation", -2, 5, 2, 3, 0, id]);
    assert_eq!(
        Value::from_iter(members.map(|name| revoked[name].clone())),
        expected
    );
    assert_eq!(problem(url, &revoke, 5)["code"], "already_revoked");

    // Of nothing, nothing is taken, and that is recorded.
    let granted = run_json(url, &grant(&account, "5", &[]));
    run_json(url, &command("set-balance", &account, &["--balance", "0"]));
    let revoked = run_json(
        url,
        &command("revoke", &account, &["--grant", text(&granted["id"])]),
    );
    assert_eq!(
        (&revoked["taken"], &revoked["short"]),
        (&json!(0), &json!(5))
    );
    let entry = text(&revoked["id"]);
    let of_revocation = command("revoke", &account, &["--grant", entry]);
    let expected =
        format!("error: entry {entry} is not a grant; a revocation takes back a grant\n");
    assert_eq!(error(url, &of_revocation, 4), expected);
    assert_eq!(payloads(pool, "CreditsRevoked").await.len(), 2);
}
