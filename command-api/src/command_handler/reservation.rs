//! Slugs that the creates of a batch reserve.

use std::collections::{HashMap, HashSet};

use linkledger_core::{
    batch::{
        AcceptedCommand, DecisionIds, IdempotencyKey, LinkCommand, SettledCommand, SettledCreate,
    },
    event_store::slugs::SlugReservation,
    id::{AccountId, LinkId},
    shard::Shard,
};

/// Returns a reservation for each create that may have an effect, of the chosen or the generated slug.
pub(super) fn wanted(
    commands: &[&LinkCommand],
    ids: &[DecisionIds],
    stored: &HashMap<(AccountId, IdempotencyKey), SettledCreate>,
) -> Vec<SlugReservation> {
    let reservation = |(command, ids): (&&LinkCommand, &DecisionIds)| {
        let LinkCommand::Create(create) = command else {
            return None;
        };
        if stored.contains_key(&(create.account_id, create.key)) {
            return None;
        }
        let draft = create.body.as_ref().ok()?;
        Some(SlugReservation {
            slug: draft.slug.as_ref().unwrap_or(&ids.generated_slug).clone(),
            shard: Shard::of(create.account_id),
            link_id: ids.link_id,
        })
    };
    commands.iter().zip(ids).filter_map(reservation).collect()
}

/// Returns the reservations of slugs that went to a later command of the batch, because the first
/// command with the slug was refused.
pub(super) fn taken_over(
    wanted: &[SlugReservation],
    accepted: &[AcceptedCommand],
) -> Vec<SlugReservation> {
    let created = |accepted: &AcceptedCommand| match &accepted.settled {
        SettledCommand::Create(create) => Some(create.link.link_id),
        SettledCommand::Change(_) => None,
    };
    let is_accepted: HashSet<LinkId> = accepted.iter().filter_map(created).collect();
    let mut reserved: HashSet<String> = HashSet::new();
    wanted
        .iter()
        .filter(|reservation| {
            let is_first = reserved.insert(reservation.slug.folded());
            !is_first && is_accepted.contains(&reservation.link_id)
        })
        .cloned()
        .collect()
}
