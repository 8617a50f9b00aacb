//! API keys of accounts: issue, changes, rotation and revocation, and the commands `key …`.

mod command;
mod replay;
mod rows;
mod secret;

use linkledger_core::{
    api_key::{ApiKeyEvent, ApiKeyIssued, KeyChangeRequest, KeyState, Scope},
    clock::new_uuid,
    envelope::NewEvent,
    event::Event,
    id::{AccountId, KeyId},
    link::Expiry,
    timestamp,
};
use linkledger_event_store::api_keys::ListedKey;
use linkledger_http::admin_views::KeyView;
use linkledger_service::operator::parse_text;
use serde::Serialize;
use serde_json::json;
use time::{Duration, OffsetDateTime};

pub(super) use self::command::{parse_instant, run};
pub use self::{
    command::{
        ChangeArguments, GivenSecret, IssueArguments, KeyChangeOptions, KeySubcommand, RevokeKey,
        RotateArguments,
    },
    secret::{NewSecret, PREFIX_LENGTH_MAX, parse_prefix, parse_sha256},
};
use self::{
    replay::{issue_mark, replay_issue, replay_rotation},
    rows::{database_now, get, insert, listed, update},
};
use super::{
    author::{EffectKind, Request},
    error::{AdminRefusal, AdminResult, Done, KeyEnd},
    operator::{self, Decision},
};

/// Longest overlap of a rotation, in seconds: a week.
pub const OVERLAP_SECONDS_MAX: u32 = 604_800;
/// Name of a key that is given none.
pub const DEFAULT_NAME: &str = "API key";

/// Requested key.
#[derive(Debug, Clone, clap::Args)]
pub struct IssueKey {
    /// Account that the key acts for: acc_….
    #[arg(long)]
    pub account: AccountId,
    /// Scopes of the key, repeated or separated by commas: link:links.write, link:links.read,
    /// link:credits.read, link:clicks.read, link:events.read, link:webhooks.read, link:webhooks.write.
    #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = command::parse_scope)]
    pub scopes: Vec<Scope>,
    /// Display name of the key.
    #[arg(long, default_value = DEFAULT_NAME, value_parser = parse_text)]
    pub name: String,
    /// Time from which on the key is refused, such as 2027-01-31T00:00:00Z; never by default.
    #[arg(long, value_parser = command::parse_instant)]
    pub expires_at: Option<OffsetDateTime>,
}

/// A key that has replaced another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RotatedKey {
    /// The new key.
    #[serde(flatten)]
    pub key: KeyView,
    /// Id of the replaced key.
    pub replaces: KeyId,
    /// Instant from which the replaced key is refused.
    #[serde(with = "timestamp")]
    pub overlap_until: OffsetDateTime,
}

/// Issues a key, once per idempotency key. A replayed answer lacks the secret.
///
/// # Errors
/// Returns an error if the account does not exist, if the idempotency key was used for another key, if the expiry is
/// in the past, if a key has this secret, or if the database fails.
pub async fn issue(
    request: &Request<'_>,
    wanted: &IssueKey,
    secret: &NewSecret,
) -> AdminResult<Done<KeyView>> {
    let mark = issue_mark(request, wanted, secret);
    let mut decision = operator::begin(request, wanted.account).await?;
    if let Some(effect) = decision.find_effect(EffectKind::Key, mark.as_ref()).await? {
        drop(decision);
        return replay_issue(request, &effect).await;
    }
    let (value, event) = issue_in(&mut decision, wanted, secret).await?;
    let event = NewEvent {
        idempotency: mark,
        ..event
    };
    Ok(Done {
        value,
        replayed: false,
        position: Some(decision.append(&[event]).await?),
    })
}

/// Stores a new key of the locked account. Returns the first answer, and the event to append.
///
/// # Errors
/// Returns an error if the expiry is in the past, if a key has this secret, or if the database fails.
pub(super) async fn issue_in(
    decision: &mut Decision<'_>,
    wanted: &IssueKey,
    secret: &NewSecret,
) -> AdminResult<(KeyView, NewEvent)> {
    check_expiry(wanted.expires_at, decision.now)?;
    let issued = ApiKeyIssued {
        account_id: wanted.account,
        key_id: KeyId::from_uuid(new_uuid(decision.now)),
        name: wanted.name.clone(),
        scopes: Scope::names(&wanted.scopes),
        expires_at: wanted.expires_at.map(Expiry::at),
    };
    let value = insert(decision, &issued, secret).await?;
    let event = next_event(decision, ApiKeyEvent::Issued(issued));
    Ok((value, event))
}

/// Changes name, scopes or expiry of a key; every process knows the change within 5 s.
///
/// # Errors
/// Returns an error if the key does not exist, has expired or is revoked, if the new expiry is in the past, or if the
/// database fails.
pub async fn change(
    request: &Request<'_>,
    key_id: KeyId,
    wanted: &KeyChangeRequest,
) -> AdminResult<Done<KeyView>> {
    change_as(request, key_id, |_| wanted.clone()).await
}

/// Adds scopes to those of a key; every process knows the scopes within 5 s.
///
/// # Errors
/// Returns an error as [`change`] does.
pub async fn add_scopes(
    request: &Request<'_>,
    key_id: KeyId,
    scopes: &[Scope],
) -> AdminResult<Done<KeyView>> {
    let with_scopes = |key: &KeyState| KeyChangeRequest {
        scopes: Some(union(&key.scopes, scopes)),
        ..KeyChangeRequest::default()
    };
    change_as(request, key_id, with_scopes).await
}

/// Replaces a key by one with the same name, scopes and expiry, once per idempotency key. The replaced key is refused
/// after `overlap_seconds`. Of many rotations of a key one succeeds. A replayed answer lacks the secret.
///
/// # Errors
/// Returns an error if the key does not exist, has expired, is revoked or was rotated, if the idempotency key was used
/// for another rotation, if a key has this secret, or if the database fails.
pub async fn rotate(
    request: &Request<'_>,
    key_id: KeyId,
    overlap_seconds: u32,
    secret: &NewSecret,
) -> AdminResult<Done<RotatedKey>> {
    let body = [
        ("key", json!(key_id)),
        ("overlap_seconds", json!(overlap_seconds)),
        ("secret_sha256", secret.given_sha256()),
    ];
    let mark = request.mark(EffectKind::Rotate, body);
    let account_id = listed(request, key_id).await?.account_id;
    let mut decision = operator::begin(request, account_id).await?;
    if let Some(effect) = decision
        .find_effect(EffectKind::Rotate, mark.as_ref())
        .await?
    {
        drop(decision);
        return replay_rotation(request, &effect).await;
    }
    let key = get(&mut decision, key_id).await?;
    let now = database_now(&mut decision).await?;
    // Also during the overlap of an earlier rotation: the key has a successor.
    check_valid(&key, key.revoked_at, decision.now)?;
    let overlap_until = now + Duration::seconds(overlap_seconds.into());
    let new_key_id = KeyId::from_uuid(new_uuid(decision.now));
    let (issued, rotated) = key.decide_rotate(new_key_id, overlap_until);
    let value = RotatedKey {
        key: insert(&mut decision, &issued, secret).await?,
        replaces: key_id,
        overlap_until: rotated.overlap_until,
    };
    let rotated = ApiKeyEvent::Rotated(rotated);
    update(&mut decision, &key.apply(&rotated)).await?;
    let events = [
        next_event(&mut decision, ApiKeyEvent::Issued(issued)),
        NewEvent {
            idempotency: mark,
            ..next_event(&mut decision, rotated)
        },
    ];
    Ok(Done {
        value,
        replayed: false,
        position: Some(decision.append(&events).await?),
    })
}

/// Revokes a key as of now; every process refuses the key within 5 s. A revoked key stays so: its revocation only
/// becomes earlier.
///
/// # Errors
/// Returns an error if the key does not exist, or the database fails.
pub async fn revoke(request: &Request<'_>, key_id: KeyId) -> AdminResult<Done<KeyView>> {
    let listed = listed(request, key_id).await?;
    let mut decision = operator::begin(request, listed.account_id).await?;
    let key = get(&mut decision, key_id).await?;
    let now = database_now(&mut decision).await?;
    let event = key.decide_revoke(now).map(ApiKeyEvent::Revoked);
    store(decision, key, event, listed).await
}

/// Changes a key as `wanted` says of the locked key.
async fn change_as(
    request: &Request<'_>,
    key_id: KeyId,
    wanted: impl FnOnce(&KeyState) -> KeyChangeRequest + Send,
) -> AdminResult<Done<KeyView>> {
    let listed = listed(request, key_id).await?;
    let mut decision = operator::begin(request, listed.account_id).await?;
    let key = get(&mut decision, key_id).await?;
    let now = database_now(&mut decision).await?;
    check_valid(&key, key.revoked_at.filter(|at| *at <= now), decision.now)?;
    let wanted = wanted(&key);
    let expires_at = wanted.expires_at.value().copied().map(Expiry::instant);
    check_expiry(expires_at, decision.now)?;
    let event = key.decide_change(&wanted).map(ApiKeyEvent::Changed);
    store(decision, key, event, listed).await
}

/// Stores the key after the event, appends the event, and commits. Without an event nothing changes.
async fn store(
    mut decision: Decision<'_>,
    key: KeyState,
    event: Option<ApiKeyEvent>,
    listed: ListedKey,
) -> AdminResult<Done<KeyView>> {
    let view = |key: &KeyState| KeyView {
        last_used_at: listed.last_used_at,
        ..KeyView::of_state(key, listed.prefix.clone())
    };
    let Some(event) = event else {
        return Ok(Done::unchanged(view(&key)));
    };
    let key = key.apply(&event);
    update(&mut decision, &key).await?;
    let event = next_event(&mut decision, event);
    Ok(Done {
        value: view(&key),
        replayed: false,
        position: Some(decision.append(&[event]).await?),
    })
}

fn next_event(decision: &mut Decision<'_>, event: ApiKeyEvent) -> NewEvent {
    let credits = decision.credits.pass();
    decision.next_event(Event::ApiKey(event), credits)
}

/// Refuses a key that has expired, or has an end that counts.
fn check_valid(
    key: &KeyState,
    revoked_at: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> AdminResult<()> {
    let expired_at = key.expires_at.filter(|at| *at <= now);
    let revoked = revoked_at.map(KeyEnd::Revoked);
    match revoked.or(expired_at.map(KeyEnd::Expired)) {
        Some(because) => Err(AdminRefusal::KeyNotValid {
            key_id: key.key_id,
            because,
        }
        .into()),
        None => Ok(()),
    }
}

fn check_expiry(expires_at: Option<OffsetDateTime>, now: OffsetDateTime) -> AdminResult<()> {
    match expires_at {
        Some(at) if at <= now => Err(AdminRefusal::ExpiryInPast.into()),
        Some(_) | None => Ok(()),
    }
}

/// Returns the scopes of a key with further ones.
fn union(scopes: &[String], added: &[Scope]) -> Vec<String> {
    let new = Scope::names(added).into_iter();
    let new = new.filter(|name| !scopes.contains(name));
    scopes.iter().cloned().chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_scopes_follow_those_of_the_key() {
        let scopes = ["link:later", "link:links.read"].map(str::to_owned);
        let added = [Scope::ClicksRead, Scope::LinksRead, Scope::LinksWrite];
        let expected = [
            "link:later",
            "link:links.read",
            "link:links.write",
            "link:clicks.read",
        ];
        assert_eq!(union(&scopes, &added), expected);
    }
}
