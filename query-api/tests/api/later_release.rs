//! During a rolling upgrade, the older release reads links with events of the later release.

use linkledger_core::commands::CreateResult;
use linkledger_testing::{LaterEvent, append_later_event};
use serde_json::json;

use crate::{
    read_tables::{insert_appended_link, insert_redirect},
    service::TestService,
};

#[tokio::test]
async fn unknown_event_hides_only_its_link() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "frozen").await;
    let other = service.append_link(&caller, "other").await;
    let frozen = LaterEvent {
        account_id: caller.account_id,
        stream_id: link.link.link_id.uuid(),
        event_type: "LinkFrozen",
        schema_version: 1,
        payload: json!({}),
        metadata: json!({ "link": { "frozen": true } }),
        idempotency_key: None,
    };
    append_later_event(service.pool(), frozen).await;
    insert_appended_link(service.pool(), &other).await;
    insert_redirect(service.pool(), &other).await;

    // The link may be deleted or only changed, so neither 404 nor 410 would be certain.
    let path = |created: &CreateResult| format!("/v1/links/{}", created.link.link_id);
    let frozen = path(&link);
    let (answer, redirect) = tokio::join!(service.get(&caller, &frozen), service.follow("/frozen"));
    answer.assert_read_model_behind();
    assert_eq!(redirect.status, 503);
    let history = format!("{frozen}/history");
    service
        .get(&caller, &history)
        .await
        .assert_read_model_behind();
    let answer = service.get(&caller, &path(&other)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(service.follow("/other").await.status, 302);
}
