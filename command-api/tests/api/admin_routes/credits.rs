//! Credits: grants, adjustments, refunds, revocations, balances.

use futures::future::join_all;
use linkledger_core::credits::BALANCE_MAX;
use serde_json::{Value, json};

use super::{
    fixture::{AdminApp, assert_problem, assert_replay, text},
    routes,
};
use crate::support::{create, destination, fresh_key, send};

/// Creates a link for credits of the account, and returns the id of the entry of its charge, and that of the link.
async fn charge(admin: &AdminApp, account: &str) -> (String, String) {
    let key = admin.api_key(account).await;
    let created = send(&admin.app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(created.status, 201, "{created:?}");
    let entry = routes::charge(admin).await.to_string();
    (entry, text(&created.json()["id"]).to_owned())
}

#[tokio::test]
async fn credits_are_granted_once_per_key() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let grants = format!("{account}/grants");
    let body = json!({
        "amount": 1000, "reason": "invoice paid", "reference": "invoice-2026-11-4711",
        "description": "Starter pack",
    });
    let granted = admin.post(&grants, "invoice-2026-11-4711", &body).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_ne!(granted.header("consistency-token"), "");
    assert_eq!(granted.header("location"), "");
    let entry = granted.json();
    assert!(text(&entry["id"]).starts_with("ent_"));
    let expected = json!({
        "id": entry["id"], "type": "grant", "amount": 1000, "balance_after": 1000,
        "reason": "invoice paid", "reference": "invoice-2026-11-4711",
        "description": "Starter pack", "created_at": entry["created_at"],
    });
    assert_eq!(entry, expected);

    admin.grant(&account, 5).await;
    let again = admin.post(&grants, "invoice-2026-11-4711", &body).await;
    assert_replay(&granted, &again);
    let other = json!({ "amount": 1001, "reason": "invoice paid" });
    let other = admin.post(&grants, "invoice-2026-11-4711", &other).await;
    assert_problem(&other, 422, "idempotency_key_reused");
    // The same text is another key in another kind of request, and in another account.
    let adjusted = json!({ "amount": 1, "reason": "x" });
    let adjustments = format!("{account}/adjustments");
    let adjusted = admin.post(&adjustments, "invoice-2026-11-4711", &adjusted);
    assert_eq!(adjusted.await.status, 201);
    let elsewhere = format!("{}/grants", admin.account().await);
    let elsewhere = admin.post(&elsewhere, "invoice-2026-11-4711", &body).await;
    assert_eq!(elsewhere.header("idempotent-replayed"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_grants_with_one_key_add_once() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let grants = format!("{account}/grants");
    let body = json!({ "amount": 7, "reason": "invoice paid" });
    let answers = join_all((0..8).map(|_| admin.post(&grants, "one", &body))).await;
    for answer in &answers {
        assert_eq!(
            (answer.status.as_u16(), &answer.body),
            (201, &answers[0].body)
        );
    }
    assert_eq!(admin.grant(&account, 1).await["balance_after"], 8);
}

#[tokio::test]
async fn adjustment_never_makes_the_balance_negative() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 10).await;
    let adjustments = format!("{account}/adjustments");
    let body = json!({ "amount": -4, "reason": "sold twice" });
    let adjusted = admin.done("POST", &adjustments, &body).await;
    assert_eq!(adjusted["type"], "adjustment");
    assert_eq!(
        (&adjusted["amount"], &adjusted["balance_after"]),
        (&json!(-4), &json!(6))
    );

    let body = json!({ "amount": -7, "reason": "sold twice" });
    let refused = admin.post(&adjustments, "a", &body).await;
    assert_problem(&refused, 402, "insufficient_credits");
    let problem = refused.json();
    assert_eq!(
        (&problem["balance"], &problem["required"]),
        (&json!(6), &json!(7))
    );
    // A refusal uses no key.
    let body = json!({ "amount": -6, "reason": "sold twice" });
    let adjusted = admin.post(&adjustments, "a", &body).await;
    assert_eq!(adjusted.json()["balance_after"], 0, "{adjusted:?}");

    let too_much = json!({ "amount": BALANCE_MAX, "reason": "x" });
    admin.done("POST", &adjustments, &too_much).await;
    let refused = admin
        .call("POST", &adjustments, &json!({ "amount": 1, "reason": "x" }))
        .await;
    assert_problem(&refused, 422, "validation_failed");
    assert_eq!(refused.json()["errors"][0]["code"], "balance_too_large");
}

#[tokio::test]
async fn charge_is_refunded_once() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 3).await;
    let (entry, link) = charge(&admin, &account).await;
    let refunds = format!("{account}/refunds");
    let body = json!({ "entry": entry, "reason": "link never worked" });
    let refunded = admin.post(&refunds, "ticket 1", &body).await;
    assert_eq!(refunded.status, 201, "{refunded:?}");
    let refund = refunded.json();
    assert_eq!(refund["type"], "refund");
    assert_eq!(refund["refunds"], entry);
    assert_eq!(refund["link_id"], link);
    assert_eq!(
        (&refund["amount"], &refund["balance_after"]),
        (&json!(1), &json!(3))
    );
    let again = admin.post(&refunds, "ticket 1", &body).await;
    assert_replay(&refunded, &again);
    let second = admin.post(&refunds, "ticket 2", &body).await;
    assert_problem(&second, 409, "already_refunded");
}

#[tokio::test]
async fn revocation_takes_what_is_left_of_a_grant() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let grant = admin.grant(&account, 3).await;
    charge(&admin, &account).await;
    let revocations = format!("{account}/revocations");
    let body = json!({ "grant": grant["id"], "reason": "payment charged back" });
    let revoked = admin.post(&revocations, "dispute 1", &body).await;
    assert_eq!(revoked.status, 201, "{revoked:?}");
    let entry = revoked.json();
    assert_eq!(
        (&entry["type"], &entry["grant"]),
        (&json!("revocation"), &grant["id"])
    );
    let numbers = ["asked", "taken", "short", "amount", "balance_after"].map(|name| &entry[name]);
    assert_eq!(json!(numbers), json!([3, 2, 1, -2, 0]));
    let again = admin.post(&revocations, "dispute 1", &body).await;
    assert_replay(&revoked, &again);
    let second = admin.post(&revocations, "dispute 2", &body).await;
    assert_problem(&second, 409, "already_revoked");
}

#[tokio::test]
async fn other_entries_are_not_found() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let grant = admin.grant(&account, 3).await;
    let grant = text(&grant["id"]);
    let (charge, _) = charge(&admin, &account).await;
    let other_account = admin.account().await;
    let unknown = "ent_01h455vb4pex5vsknk084sn02q";
    let refund = |entry: &str| json!({ "entry": entry, "reason": "x" });
    let revocation = |entry: &str| json!({ "grant": entry, "reason": "x" });
    for (account, operation, body) in [
        (&account, "refunds", refund(unknown)),
        (&account, "refunds", refund(grant)),
        (&other_account, "refunds", refund(&charge)),
        (&account, "revocations", revocation(unknown)),
        (&account, "revocations", revocation(&charge)),
        (&other_account, "revocations", revocation(grant)),
    ] {
        let path = format!("{account}/{operation}");
        let answer = admin.call("POST", &path, &body).await;
        assert_problem(&answer, 404, "entry_not_found");
    }
    let nobody = "/admin/v1/accounts/acc_01h455vb4pex5vsknk084sn02q/refunds";
    let answer = admin.call("POST", nobody, &refund(&charge)).await;
    assert_problem(&answer, 404, "account_not_found");
}

#[tokio::test]
async fn balance_is_set_by_one_adjustment() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 3).await;
    let balance = format!("{account}/balance");
    let body = |balance: i64| json!({ "balance": balance, "reason": "monthly plan" });
    let set = admin.post(&balance, "2026-11", &body(500)).await;
    assert_eq!(set.status, 201, "{set:?}");
    let entry: Value = set.json();
    assert_eq!(entry["type"], "adjustment");
    assert_eq!(
        (&entry["amount"], &entry["balance_after"]),
        (&json!(497), &json!(500))
    );
    admin.grant(&account, 1).await;
    let again = admin.post(&balance, "2026-11", &body(500)).await;
    assert_replay(&set, &again);

    // A key is used also at the same balance: a late retry changes nothing.
    let same = admin.post(&balance, "2026-12", &body(501)).await;
    assert_eq!(same.status, 201, "{same:?}");
    assert_eq!(same.json()["amount"], 0);
    assert_eq!(admin.grant(&account, 1).await["balance_after"], 502);
    let again = admin.post(&balance, "2026-12", &body(501)).await;
    assert_replay(&same, &again);
    assert_eq!(admin.grant(&account, 1).await["balance_after"], 503);
    let other = admin.post(&balance, "2026-12", &body(0)).await;
    assert_problem(&other, 422, "idempotency_key_reused");
}
