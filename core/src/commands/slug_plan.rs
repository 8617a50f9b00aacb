//! The slugs that a commit group reserves before its commands are decided.
//!
//! A refused create writes nothing, so a slug is reserved only for a create that its account can
//! pay. A commit group releases the reserved slugs of creates that are refused for another reason.
//!
//! An atomic [`BatchCreate`] reserves all of its slugs or none, so its chosen slugs are looked up
//! before the plan. If another transaction takes one of the slugs between look-up and reservation,
//! the others are released.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    BatchCreate, BatchMode, CreateResult, DecisionInput, IdempotencyKey, KeyedCreate, LinkCommand,
    with_ids,
};
use crate::{
    credits::Credits,
    id::{AccountId, LinkId},
    link::Slug,
    shard::Shard,
};

type ScopedKey = (AccountId, IdempotencyKey);

/// A slug that a commit group requests for a link.
#[derive(Debug, Clone)]
pub struct SlugReservation {
    /// Slug as requested.
    pub slug: Slug,
    /// Shard of the link.
    pub shard: Shard,
    /// Id of the link.
    pub link_id: LinkId,
}

/// State from which the slugs of a commit group are planned.
#[derive(Debug, Clone, Copy)]
pub struct SlugPlanInput<'a> {
    /// Credits of the locked accounts.
    pub credits: &'a HashMap<AccountId, Credits>,
    /// Earlier creates, by account and idempotency key.
    pub stored: &'a HashMap<ScopedKey, Arc<CreateResult>>,
    /// Lower-cased slugs of [`SlugPlan::slugs_of_batches`] that belong to a link.
    pub taken: &'a HashSet<String>,
    /// Price of one link, in credits.
    pub price: i64,
}

/// Slugs of the creates of a commit group.
#[derive(Debug, Default)]
pub struct SlugPlan {
    /// Slugs to reserve, in the order of the commands.
    pub to_reserve: Vec<SlugReservation>,
    /// Lower-cased chosen slugs of creates that probably have no effect. A taken slug is reported before a
    /// missing credit (`docs/api.md#order-of-checks`), so the database must be asked.
    pub to_look_up: Vec<String>,
}

impl SlugPlan {
    /// Returns the lower-cased chosen slugs of all [`BatchCreate`]s, which must be looked up before the
    /// plan.
    pub fn slugs_of_batches(commands: &[&LinkCommand]) -> Vec<String> {
        let batches = commands.iter().filter_map(|command| match command {
            LinkCommand::Batch(batch) => Some(&batch.creates),
            LinkCommand::Create(_) | LinkCommand::Change(_) => None,
        });
        let drafts = batches.flatten().flat_map(|create| &create.body);
        let slugs: HashSet<String> = drafts
            .filter_map(|draft| Some(draft.slug.as_ref()?.key()))
            .collect();
        slugs.into_iter().collect()
    }

    /// Plans the slugs of a commit group. `ids` has [`LinkCommand::size`] ids for each command.
    pub fn new(commands: &[&LinkCommand], ids: &[DecisionInput], input: SlugPlanInput<'_>) -> Self {
        let mut planner = Planner::new(input);
        for (command, ids) in with_ids(commands, ids) {
            match command {
                LinkCommand::Create(create) => planner.add_create(create, &ids[0]),
                LinkCommand::Batch(batch) => planner.add_batch(batch, ids),
                LinkCommand::Change(_) => {}
            }
        }
        planner.plan
    }

    /// Returns the lower-cased slugs of the plan that are taken. `reserved` has the slugs that could be
    /// reserved, `found` the looked-up slugs that belong to a link.
    pub fn taken(
        &self,
        reserved: &HashMap<String, LinkId>,
        found: impl IntoIterator<Item = String>,
    ) -> HashSet<String> {
        let wanted = self.to_reserve.iter().map(|wanted| wanted.slug.key());
        let refused = wanted.filter(|slug| !reserved.contains_key(slug));
        refused.chain(found).collect()
    }
}

/// A plan that is being made.
struct Planner<'a> {
    input: SlugPlanInput<'a>,
    /// Keys of the creates that come first with their key. Of several creates with one key, at most
    /// one has an effect: usually the first.
    keys: HashSet<ScopedKey>,
    /// Balances after the planned creates.
    balances: HashMap<AccountId, i64>,
    /// Lower-cased slugs to reserve.
    reserved: HashSet<String>,
    plan: SlugPlan,
}

impl<'a> Planner<'a> {
    fn new(input: SlugPlanInput<'a>) -> Self {
        let accounts = input.credits.iter();
        Self {
            input,
            keys: HashSet::new(),
            balances: accounts
                .map(|(account_id, credits)| (*account_id, credits.balance))
                .collect(),
            reserved: HashSet::new(),
            plan: SlugPlan::default(),
        }
    }

    fn add_create(&mut self, create: &KeyedCreate, ids: &DecisionInput) {
        let scoped_key = (create.account_id, create.key);
        let Ok(draft) = &create.body else {
            return;
        };
        if self.input.stored.contains_key(&scoped_key) {
            return;
        }
        let is_first = self.keys.insert(scoped_key);
        if is_first && self.balance(create.account_id) >= self.input.price {
            self.reserve(
                create.account_id,
                [reservation(create, draft.slug.as_ref(), ids)],
            );
        } else if let Some(slug) = &draft.slug {
            self.plan.to_look_up.push(slug.key());
        }
    }

    /// Reserves all slugs of an atomic batch that will surely be accepted, and none of any other batch.
    fn add_batch(&mut self, batch: &BatchCreate, ids: &[DecisionInput]) {
        let scoped_key = |create: &KeyedCreate| (create.account_id, create.key);
        let is_unused = |create: &KeyedCreate| {
            let key = scoped_key(create);
            !self.input.stored.contains_key(&key) && !self.keys.contains(&key)
        };
        if batch.mode == BatchMode::DryRun || !batch.creates.iter().all(is_unused) {
            return;
        }
        let creates = batch.creates.iter().zip(ids);
        let wanted = creates.map(|(create, ids)| {
            let draft = create.body.as_ref().ok()?;
            Some(reservation(create, draft.slug.as_ref(), ids))
        });
        let Some(wanted) = wanted.collect::<Option<Vec<_>>>() else {
            return;
        };
        let mut slugs = HashSet::new();
        let are_free = wanted.iter().all(|wanted| {
            let slug = wanted.slug.key();
            let is_taken = self.input.taken.contains(&slug) || self.reserved.contains(&slug);
            !is_taken && slugs.insert(slug)
        });
        if are_free && self.balance(batch.account_id) >= self.price_of(wanted.len()) {
            self.keys.extend(batch.creates.iter().map(scoped_key));
            self.reserve(batch.account_id, wanted);
        }
    }

    fn balance(&self, account_id: AccountId) -> i64 {
        self.balances.get(&account_id).copied().unwrap_or_default()
    }

    fn price_of(&self, links: usize) -> i64 {
        let links = i64::try_from(links).unwrap_or(i64::MAX);
        self.input.price.saturating_mul(links)
    }

    fn reserve(
        &mut self,
        account_id: AccountId,
        wanted: impl IntoIterator<Item = SlugReservation>,
    ) {
        for wanted in wanted {
            *self.balances.entry(account_id).or_default() -= self.input.price;
            self.reserved.insert(wanted.slug.key());
            self.plan.to_reserve.push(wanted);
        }
    }
}

fn reservation(
    create: &KeyedCreate,
    chosen: Option<&Slug>,
    ids: &DecisionInput,
) -> SlugReservation {
    SlugReservation {
        slug: chosen.unwrap_or(&ids.generated_slug).clone(),
        shard: Shard::of(create.account_id),
        link_id: ids.link_id,
    }
}
