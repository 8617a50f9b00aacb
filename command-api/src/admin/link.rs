//! Links of all accounts: taken out of service and put back, and the commands `link …`.

mod command;

use linkledger_core::{
    envelope::{IdempotencyMark, NewEvent, RecordedEvent},
    id::{AccountId, LinkId},
    link::{ChangeLinkError, ExistingLink, LinkEvent, LinkName},
    shard::Position,
};
use linkledger_event_store::{links, names};
use linkledger_http::admin_views::LinkView;
use serde_json::json;
use sqlx::{PgExecutor, PgPool};

pub(super) use self::command::run;
pub use self::command::{LinkSubcommand, LinkSubject};
use super::{
    author::{EffectKind, Request},
    error::{AdminError, AdminRefusal, AdminResult, Done},
    operator::{self, Decision},
};

/// Takes a link out of service, once per idempotency key: the short address answers 410 Gone, and only an operator
/// puts the link back.
///
/// # Errors
/// Returns an error if there is no such link or it is deleted, if the idempotency key was used for another link or
/// reason, or if the database fails.
pub async fn disable(
    request: &Request<'_>,
    link: &LinkName,
    reason: &str,
) -> AdminResult<Done<LinkView>> {
    change(request, EffectKind::Disable, link, reason).await
}

/// Puts a link that an operator has disabled back into service, once per idempotency key. A link that its owner has
/// disabled stays so.
///
/// # Errors
/// Returns an error as [`disable`] does.
pub async fn enable(
    request: &Request<'_>,
    link: &LinkName,
    reason: &str,
) -> AdminResult<Done<LinkView>> {
    change(request, EffectKind::Enable, link, reason).await
}

async fn change(
    request: &Request<'_>,
    kind: EffectKind,
    name: &LinkName,
    reason: &str,
) -> AdminResult<Done<LinkView>> {
    let (account_id, link_id) = find(request.pool, name).await?;
    let body = [("link", json!(link_id)), ("reason", json!(reason))];
    let mark = request.mark(kind, body);
    let mut decision = operator::begin(request, account_id).await?;
    let short_base = short_base(&mut *decision.tx, account_id, link_id).await?;
    if let Some(effect) = decision.find_effect(kind, mark.as_ref()).await? {
        return replay(&effect, &short_base);
    }
    let link = load(&mut decision, link_id).await?;
    let decided = if kind == EffectKind::Enable {
        link.decide_enable(reason)
    } else {
        link.decide_disable(reason)
    };
    match decided {
        Ok(Some(event)) => {
            let link = link.apply(&event);
            let value = LinkView::of(&link, &short_base);
            let position = Some(append(decision, &link, event, mark).await?);
            Ok(Done {
                value,
                replayed: false,
                position,
            })
        }
        Ok(None) => Ok(Done::unchanged(LinkView::of(&link, &short_base))),
        Err(ChangeLinkError::NotFound) => Err(AdminRefusal::LinkDeleted(link_id).into()),
        Err(error) => Err(AdminError::Failed(error.into())),
    }
}

/// Appends the event that has led to the link, and commits.
async fn append(
    decision: Decision<'_>,
    link: &ExistingLink,
    event: LinkEvent,
    mark: Option<IdempotencyMark>,
) -> AdminResult<Position> {
    let (event_id, now) = (decision.event_id(), decision.now);
    let metadata = decision.request.metadata.clone();
    let event = NewEvent {
        idempotency: mark,
        ..NewEvent::of_link(event_id, now, event, link, metadata)
    };
    decision.append(&[event]).await
}

/// Returns the answer to the request that has appended the event.
fn replay(event: &RecordedEvent, short_base: &str) -> AdminResult<Done<LinkView>> {
    let link = event.link_after().map_err(AdminError::unreadable)?;
    Ok(Done {
        value: LinkView::of(&link, short_base),
        replayed: true,
        position: Some(event.position),
    })
}

/// Finds a link, which may be deleted, and its account.
async fn find(pool: &PgPool, name: &LinkName) -> AdminResult<(AccountId, LinkId)> {
    let not_found = || AdminRefusal::LinkNotFound(name.clone());
    let link_id = names::find_link(pool, name).await;
    let link_id = link_id.map_err(AdminError::of_statement("look up the link"))?;
    let link_id = link_id.ok_or_else(not_found)?;
    let owner = links::find_owner(pool, link_id).await;
    let owner = owner.map_err(AdminError::of_statement("look up the link"))?;
    Ok((owner.ok_or_else(not_found)?, link_id))
}

/// Reads the start of the short address that the link got at its creation; the service may use another one by now.
async fn short_base(
    executor: impl PgExecutor<'_>,
    account_id: AccountId,
    link_id: LinkId,
) -> AdminResult<String> {
    let short_url = names::short_url(executor, account_id, link_id).await;
    let short_url = short_url.map_err(AdminError::of_statement("read the creation of the link"))?;
    let base = short_url.as_deref().and_then(|url| url.rsplit_once('/'));
    let (base, _) = base.ok_or_else(|| AdminError::unreadable(link_id))?;
    Ok(base.to_owned())
}

/// Reads a link of the locked account.
async fn load(decision: &mut Decision<'_>, link_id: LinkId) -> AdminResult<ExistingLink> {
    let key = (decision.account_id, link_id);
    let links = links::load_in_tx(&mut decision.tx, &[key]).await;
    let mut links = links.map_err(AdminError::of_statement("read the link"))?;
    let link = links.remove(&key).map(|found| found.link);
    Ok(link.ok_or(AdminRefusal::LinkNotFound(LinkName::Id(link_id)))?)
}
