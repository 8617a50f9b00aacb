//! The slugs that a batch reserves before its commands are decided.
//!
//! A refused create writes nothing, so a slug is reserved only for a create that its account can
//! pay. A batch releases the reserved slugs of creates that are refused for another reason.

use std::collections::{HashMap, HashSet};

use super::{DecisionIds, IdempotencyKey, LinkCommand, SettledCreate};
use crate::{
    credits::Credits,
    id::{AccountId, LinkId},
    link::Slug,
    shard::Shard,
};

/// A slug that a batch requests for a link.
#[derive(Debug, Clone)]
pub struct SlugReservation {
    /// Slug as requested.
    pub slug: Slug,
    /// Shard of the link.
    pub shard: Shard,
    /// Id of the link.
    pub link_id: LinkId,
}

/// Slugs of the creates of a batch.
#[derive(Debug, Default)]
pub struct SlugPlan {
    /// Slugs to reserve, in the order of the commands.
    pub to_reserve: Vec<SlugReservation>,
    /// Folded chosen slugs of creates that probably have no effect. A taken slug is reported before a
    /// missing credit (`docs/api.md#order-of-checks`), so the database must be asked.
    pub to_look_up: Vec<String>,
}

impl SlugPlan {
    /// Plans the slugs of a batch. `credits` has the locked accounts, `stored` the used keys.
    pub fn new(
        commands: &[&LinkCommand],
        ids: &[DecisionIds],
        credits: &HashMap<AccountId, Credits>,
        stored: &HashMap<(AccountId, IdempotencyKey), SettledCreate>,
        price: i64,
    ) -> Self {
        let mut plan = Self::default();
        let mut keys: HashSet<(AccountId, IdempotencyKey)> = HashSet::new();
        let mut balances: HashMap<AccountId, i64> = credits
            .iter()
            .map(|(account_id, credits)| (*account_id, credits.balance))
            .collect();
        for (command, ids) in commands.iter().zip(ids) {
            let LinkCommand::Create(create) = command else {
                continue;
            };
            let scoped_key = (create.account_id, create.key);
            let Ok(draft) = &create.body else {
                continue;
            };
            if stored.contains_key(&scoped_key) {
                continue;
            }
            // Of several creates with one key, at most one has an effect: usually the first.
            let is_first = keys.insert(scoped_key);
            let balance = balances.entry(create.account_id).or_default();
            if is_first && *balance >= price {
                *balance -= price;
                plan.to_reserve.push(SlugReservation {
                    slug: draft.slug.as_ref().unwrap_or(&ids.generated_slug).clone(),
                    shard: Shard::of(create.account_id),
                    link_id: ids.link_id,
                });
            } else if let Some(slug) = &draft.slug {
                plan.to_look_up.push(slug.folded());
            }
        }
        plan
    }

    /// Returns the folded slugs of the plan that are taken. `reserved` has the slugs that could be
    /// reserved, `found` the looked-up slugs that belong to a link.
    pub fn taken(&self, reserved: &HashMap<String, LinkId>, found: Vec<String>) -> HashSet<String> {
        let wanted = self.to_reserve.iter().map(|wanted| wanted.slug.folded());
        let refused = wanted.filter(|slug| !reserved.contains_key(slug));
        refused.chain(found).collect()
    }
}
