//! The slugs that a batch asks for.

use std::collections::{HashMap, HashSet};

use linkledger_core::{
    batch::{
        AcceptedCommand, DecisionIds, IdempotencyKey, LinkCommand, SettledCommand, SettledCreate,
    },
    event_store::slugs::SlugReservation,
    id::{AccountId, LinkId},
    shard::Shard,
};

/// One for each create that may have an effect, chosen slug or ours.
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

/// The reservations whose slug was accepted for a later command than the one that is noted with
/// it, because the earlier one was refused.
pub(super) fn taken_over(
    wanted: &[SlugReservation],
    accepted: &[AcceptedCommand],
) -> Vec<SlugReservation> {
    let created = |accepted: &AcceptedCommand| match &accepted.settled {
        SettledCommand::Create(create) => Some(create.link.link_id),
        SettledCommand::Change(_) => None,
    };
    let is_accepted: HashSet<LinkId> = accepted.iter().filter_map(created).collect();
    let mut noted: HashSet<String> = HashSet::new();
    wanted
        .iter()
        .filter(|reservation| {
            let is_first = noted.insert(reservation.slug.folded());
            !is_first && is_accepted.contains(&reservation.link_id)
        })
        .cloned()
        .collect()
}
