//! Deleted and disabled links, and links of stopped accounts, are 410 for visitors. A deleted link is 404 for its owner.

use axum::http::Method;
use linkledger_core::{
    commands::CreateResult,
    consistency::ConsistencyToken,
    event::Event,
    link::{Destination, DisabledBy, LinkDeleted, LinkDestinationChanged, LinkDisabled, LinkEvent},
    shard::Position,
};
use linkledger_testing as testing;

use crate::{
    read_tables::{
        insert_appended_link, insert_redirect, set_checkpoint, stop_account, unused_link_id,
        update_redirect,
    },
    service::{Answer, TestCaller, TestService},
};

#[track_caller]
fn assert_gone(answer: &Answer) {
    assert_eq!(answer.status, 410, "{}", answer.body);
    assert!(
        answer
            .body
            .contains("<h1>This link is no longer available</h1>"),
        "{}",
        answer.body
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("location"), None);
    assert!(!answer.body.contains("example.com"), "{}", answer.body);
}

fn deleted(link: &CreateResult) -> LinkEvent {
    LinkEvent::Deleted(LinkDeleted {
        link_id: link.link.link_id,
        account_id: link.link.account_id,
        slug: link.link.slug.clone(),
    })
}

fn disabled(link: &CreateResult) -> LinkEvent {
    LinkEvent::Disabled(LinkDisabled {
        link_id: link.link.link_id,
        account_id: link.link.account_id,
        reason: "phishing".to_owned(),
        by: DisabledBy::Operator,
        disabled_by: DisabledBy::Operator,
    })
}

fn changed(link: &CreateResult) -> LinkEvent {
    LinkEvent::DestinationChanged(LinkDestinationChanged {
        link_id: link.link.link_id,
        account_id: link.link.account_id,
        destination_url: Destination::stored("https://example.com/changed"),
        previous_destination_url: link.link.destination_url.clone(),
    })
}

/// Appends events of the link, and returns the last position.
async fn append(service: &TestService, link: &CreateResult, events: &[LinkEvent]) -> Position {
    let events: Vec<Event> = events.iter().cloned().map(Event::Link).collect();
    let account_id = link.link.account_id;
    let positions = testing::append_events(service.pool(), account_id, &events).await;
    *positions.last().unwrap()
}

async fn visible_link(service: &TestService, caller: &TestCaller, slug: &str) -> CreateResult {
    let link = service.append_link(caller, slug).await;
    insert_appended_link(service.pool(), &link).await;
    insert_redirect(service.pool(), &link).await;
    link
}

#[tokio::test]
async fn deleted_and_disabled_links_are_gone() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    for state in ["disabled", "deleted"] {
        visible_link(&service, &caller, state).await;
        update_redirect(service.pool(), state, "https://example.com/", state).await;
        let path = format!("/{state}");
        assert_gone(&service.follow(&path).await);
        assert_gone(&service.follow(&path.to_uppercase()).await);
        let head = service.call_short_host(Method::HEAD, &path, &[]).await;
        assert_eq!(head.status, 410);
        let json = [("accept", "application/json")];
        let answer = service.call_short_host(Method::GET, &path, &json).await;
        answer.assert_problem(410, "short_link_gone");
    }
    update_redirect(service.pool(), "disabled", "https://example.com/", "active").await;
    assert_eq!(service.follow("/disabled").await.status, 302);
}

#[tokio::test]
async fn only_links_of_stopped_account_are_gone() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    visible_link(&service, &caller, "stopped").await;
    visible_link(&service, &other, "followed").await;
    stop_account(service.pool(), caller.account_id).await;
    assert_gone(&service.follow("/stopped").await);
    assert_eq!(service.follow("/followed").await.status, 302);
}

#[tokio::test]
async fn link_ended_before_visible_is_gone() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    for (slug, ending) in [
        ("deleted", deleted as fn(&CreateResult) -> LinkEvent),
        ("disabled", disabled),
    ] {
        let link = service.append_link(&caller, slug).await;
        append(&service, &link, &[ending(&link)]).await;
        assert_gone(&service.follow(&format!("/{slug}")).await);
    }
    // The last event does not say that the link is disabled, so the read table has to.
    let link = service.append_link(&caller, "changed").await;
    append(&service, &link, &[disabled(&link), changed(&link)]).await;
    assert_eq!(service.follow("/changed").await.status, 503);
}

#[tokio::test]
async fn deleted_link_is_404_at_any_lag() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let unknown = format!("/v1/links/{}", unused_link_id());
    let unknown = service.get(&caller, &unknown).await;
    unknown.assert_problem(404, "link_not_found");

    let never_seen = service.append_link(&caller, "never-seen").await;
    append(&service, &never_seen, &[deleted(&never_seen)]).await;
    let path = format!("/v1/links/{}", never_seen.link.link_id);
    let answer = service.get(&caller, &path).await;
    assert_eq!(answer.status, 404);
    let body = answer.body_without_request_id();
    assert_eq!(body, unknown.body_without_request_id());

    let seen = visible_link(&service, &caller, "seen").await;
    let position = append(&service, &seen, &[deleted(&seen)]).await;
    let token = ConsistencyToken {
        epoch: 1,
        account_id: caller.account_id,
        position,
    };
    let token = token.encode();
    let headers = [("consistency-token", token.as_str())];
    let path = format!("/v1/links/{}", seen.link.link_id);
    let request = || service.get_with(&caller, &path, &headers);
    let answer = service
        .answer_after(request, async {
            sqlx::query("DELETE FROM read_model.links")
                .execute(service.pool())
                .await
                .unwrap();
            set_checkpoint(service.pool(), "links", caller.account_id, position).await;
        })
        .await;
    answer.assert_problem(404, "link_not_found");
}

#[tokio::test]
async fn link_deleted_during_wait_is_404() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "brief").await;
    let path = format!("/v1/links/{}", link.link.link_id);
    let request = || service.get(&caller, &path);
    let answer = service
        .answer_after(request, async {
            let position = append(&service, &link, &[deleted(&link)]).await;
            // The projector applied the creation and the deletion in one batch, so no row was ever visible.
            set_checkpoint(service.pool(), "links", caller.account_id, position).await;
        })
        .await;
    answer.assert_problem(404, "link_not_found");
}
