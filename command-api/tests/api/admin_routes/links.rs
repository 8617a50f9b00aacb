//! Links of all accounts: disabled and enabled by an operator.

use linkledger_testing as testing;
use serde_json::json;

use super::fixture::{AdminApp, assert_problem, assert_replay, text};
use crate::support::{change, create, delete, destination, fresh_key, send};

#[tokio::test]
async fn disabled_link_stays_so_until_enabled() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 5).await;
    let key = admin.api_key(&account).await;
    let created = send(&admin.app.router, create(&key, fresh_key(), &destination())).await;
    let link = text(&created.json()["id"]).to_owned();
    let [disable, enable] =
        ["disable", "enable"].map(|verb| format!("/admin/v1/links/{link}/{verb}"));

    let body = json!({ "reason": "phishing" });
    let disabled = admin.post(&disable, "case 1", &body).await;
    assert_eq!(disabled.status, 200, "{disabled:?}");
    assert_ne!(disabled.header("consistency-token"), "");
    let shown = disabled.json();
    assert_eq!(shown["id"], link);
    assert_eq!(
        format!("/admin/v1/accounts/{}", text(&shown["account_id"])),
        account
    );
    assert_eq!(
        (&shown["disabled"], &shown["disabled_by"]),
        (&json!(true), &json!("operator"))
    );
    let by_owner = change(&key, &link, &json!({ "disabled": false }));
    let by_owner = send(&admin.app.router, by_owner).await;
    assert_problem(&by_owner, 403, "link_disabled_by_operator");

    let enabled = admin
        .post(&enable, "case 1", &json!({ "reason": "appeal" }))
        .await;
    assert_eq!(enabled.status, 200, "{enabled:?}");
    assert!(enabled.json().get("disabled").is_none());
    let again = admin.post(&disable, "case 1", &body).await;
    assert_replay(&disabled, &again);
    let other = admin
        .post(&disable, "case 1", &json!({ "reason": "spam" }))
        .await;
    assert_problem(&other, 422, "idempotency_key_reused");
    let unchanged = admin
        .call("POST", &enable, &json!({ "reason": "appeal" }))
        .await;
    assert_eq!(
        (unchanged.status.as_u16(), &unchanged.body),
        (200, &enabled.body)
    );
}

#[tokio::test]
async fn short_address_is_that_of_the_creation() {
    let admin = AdminApp::start().await;
    let pool = admin.app.database.pool();
    let account_id = testing::account(pool, 5).await;
    // Their short addresses have another beginning than those of the service.
    let links = [("spring", "https://example.com/")];
    let created = testing::append_links(pool, account_id, &links).await;
    let link = &created[0].link;
    assert!(!link.short_url.starts_with("https://sho.rt/"));
    let path = format!("/admin/v1/links/{}/disable", link.link_id);
    let body = json!({ "reason": "phishing" });
    for _ in 0..2 {
        let disabled = admin.post(&path, "case 1", &body).await;
        assert_eq!(disabled.json()["short_url"], link.short_url);
    }
}

#[tokio::test]
async fn unknown_and_deleted_links_are_not_found() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 5).await;
    let key = admin.api_key(&account).await;
    let created = send(&admin.app.router, create(&key, fresh_key(), &destination())).await;
    let link = text(&created.json()["id"]).to_owned();
    send(&admin.app.router, delete(&key, &link)).await;
    for id in [
        link.as_str(),
        "lnk_01h455vb4pex5vsknk084sn02q",
        "lnk_1",
        "spring-sale",
    ] {
        for verb in ["disable", "enable"] {
            let path = format!("/admin/v1/links/{id}/{verb}");
            let answer = admin.call("POST", &path, &json!({ "reason": "x" })).await;
            assert_problem(&answer, 404, "link_not_found");
        }
    }
}
