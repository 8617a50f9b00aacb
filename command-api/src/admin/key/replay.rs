//! Replays: the answers to earlier requests that issued or rotated a key.

use linkledger_core::{
    api_key::{ApiKeyEvent, KeyState, Scope},
    envelope::{IdempotencyMark, RecordedEvent},
    event::{Event, Subject},
    link::Expiry,
};
use linkledger_event_store::log::{self, StreamPart};
use linkledger_http::admin_views::KeyView;
use serde_json::json;

use super::{IssueKey, NewSecret, RotatedKey, rows::listed};
use crate::admin::{
    author::{EffectKind, Request},
    error::{AdminError, AdminResult, Done},
};

/// Returns the mark of the issue of a key.
pub(super) fn issue_mark(
    request: &Request<'_>,
    wanted: &IssueKey,
    secret: &NewSecret,
) -> Option<IdempotencyMark> {
    let body = [
        ("name", json!(wanted.name)),
        ("scopes", json!(Scope::names(&wanted.scopes))),
        ("expires_at", json!(wanted.expires_at.map(Expiry::at))),
        ("secret_sha256", secret.given_sha256()),
    ];
    request.mark(EffectKind::Key, body)
}

/// Returns the answer to the request that has issued the key.
pub(super) async fn replay_issue(
    request: &Request<'_>,
    event: &RecordedEvent,
) -> AdminResult<Done<KeyView>> {
    let ApiKeyEvent::Issued(issued) = key_event(event)? else {
        return Err(AdminError::unreadable(&event.event_type));
    };
    let prefix = listed(request, issued.key_id).await?.prefix;
    let key = KeyState::new(&issued, event.recorded_at);
    Ok(Done {
        value: KeyView::of_state(&key, prefix),
        replayed: true,
        position: Some(event.position),
    })
}

/// Returns the answer to the request that has rotated the key.
pub(super) async fn replay_rotation(
    request: &Request<'_>,
    event: &RecordedEvent,
) -> AdminResult<Done<RotatedKey>> {
    let ApiKeyEvent::Rotated(rotated) = key_event(event)? else {
        return Err(AdminError::unreadable(&event.event_type));
    };
    // The issue of the new key is the event before.
    let issue = StreamPart {
        before: event.version,
        ..StreamPart::newest(event.shard, Subject::Account(event.account_id), 1)
    };
    let issue = log::read_stream_backwards(request.pool, &issue).await;
    let issue = issue.map_err(AdminError::of_statement("read the issue of the key"))?;
    let issue = issue
        .first()
        .ok_or_else(|| AdminError::unreadable(rotated.new_key_id))?;
    let issued = replay_issue(request, issue).await?;
    Ok(Done {
        value: RotatedKey {
            key: issued.value,
            replaces: rotated.key_id,
            overlap_until: rotated.overlap_until,
        },
        replayed: true,
        position: Some(event.position),
    })
}

fn key_event(event: &RecordedEvent) -> AdminResult<ApiKeyEvent> {
    match event.decode().map_err(AdminError::unreadable)? {
        Event::ApiKey(event) => Ok(event),
        Event::Link(_)
        | Event::Account(_)
        | Event::Webhook(_)
        | Event::Observation(_)
        | Event::Credits(_) => Err(AdminError::unreadable(&event.event_type)),
    }
}
