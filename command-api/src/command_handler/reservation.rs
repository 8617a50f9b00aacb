//! Slugs that the creates of a batch reserve.

use std::collections::{HashMap, HashSet};

use linkledger_core::{
    batch::{Accepted, Command, IdempotencyKey, Settled, SettledCreate, Stamp},
    event_store::slugs::Reservation,
    id::{AccountId, LinkId},
    shard::Shard,
};

/// Returns a reservation for each create that may have an effect, of the chosen or the generated slug.
pub(super) fn wanted(
    commands: &[&Command],
    stamps: &[Stamp],
    stored: &HashMap<(AccountId, IdempotencyKey), SettledCreate>,
) -> Vec<Reservation> {
    let reservation = |(command, stamp): (&&Command, &Stamp)| {
        let Command::Create(create) = command else {
            return None;
        };
        if stored.contains_key(&(create.account_id, create.key)) {
            return None;
        }
        let draft = create.body.as_ref().ok()?;
        Some(Reservation {
            slug: draft.slug.as_ref().unwrap_or(&stamp.generated_slug).clone(),
            shard: Shard::of(create.account_id),
            link_id: stamp.link_id,
        })
    };
    commands
        .iter()
        .zip(stamps)
        .filter_map(reservation)
        .collect()
}

/// Returns the reservations of slugs that went to a later command of the batch, because the first
/// command with the slug was refused.
pub(super) fn taken_over(wanted: &[Reservation], accepted: &[Accepted]) -> Vec<Reservation> {
    let created = |accepted: &Accepted| match &accepted.settled {
        Settled::Create(create) => Some(create.link.link_id),
        Settled::Change(_) => None,
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
