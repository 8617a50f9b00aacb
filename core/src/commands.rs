//! Decides the commands of one commit group, in order of arrival. All accepted commands are committed together
//! (group commit).
//!
//! Pure code: the input is the state loaded from the database, the output is the events to append.
//! Invariant: the outcomes equal those of the same commands decided one after the other, first the
//! commands that are not retried.

pub mod batch_create;
pub mod batch_request;
pub mod command;
pub mod keyed_create;
pub mod link_change;
pub mod outcome;
pub mod slug_plan;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use time::OffsetDateTime;

use crate::{
    credits::{Credits, CreditsEvent},
    envelope::NewEvent,
    id::{AccountId, EventId, LinkId},
    link::{CreateLink, CreateLinkError, LinkCreated, LinkDetails, LinkDraft, LinkState, Slug},
};

pub use batch_create::{BatchCreate, BatchMode};
pub use command::{LinkCommand, with_ids};
pub use keyed_create::{CreateResult, IdempotencyKey, KeyedCreate};
pub use link_change::{ChangeRequest, ChangeResult, LinkChange};
pub use outcome::{CommandOutcome, Created, Outcome, Rejection};
pub use slug_plan::{SlugPlan, SlugPlanInput, SlugReservation};

/// Price of a link, and the base address of short links.
#[derive(Debug, Clone)]
pub struct CreateTerms {
    /// Price of one link, in credits.
    pub link_price: i64,
    /// Start of every short address, without a trailing slash.
    pub short_base_url: String,
}

/// Most events of one decision: a change of a link on its destination, its details and its service.
pub const EVENTS_MAX: usize = 3;

/// Ids and time of one decision, drawn right before the decision.
#[derive(Debug, Clone)]
pub struct DecisionInput {
    /// Time of the decision. Recorded as `recorded_at` and `ce_time`, and as `created_at` of a new
    /// link.
    pub now: OffsetDateTime,
    /// Id of the link, if the command creates one.
    pub link_id: LinkId,
    /// Ids of the events.
    pub event_ids: [EventId; EVENTS_MAX],
    /// Slug of a new link if the caller chose none.
    pub generated_slug: Slug,
}

/// Account and external id.
pub type ExternalIdKey = (AccountId, String);

/// State loaded from the database for one commit group, while the accounts are locked.
#[derive(Debug, Clone, Default)]
pub struct LoadedState {
    /// Credits of each account of the commit group.
    pub credits: HashMap<AccountId, Credits>,
    /// Earlier creates, by account and idempotency key.
    pub stored: HashMap<(AccountId, IdempotencyKey), Arc<CreateResult>>,
    /// Lower-cased slugs that are reserved for this commit group, each for one link.
    pub reserved_slugs: HashMap<String, LinkId>,
    /// Lower-cased slugs of other links.
    pub taken_slugs: HashSet<String>,
    /// Links with the external ids that the commands request.
    pub external_ids: HashMap<ExternalIdKey, LinkId>,
    /// Links to be changed. A link that is missing here does not exist in the account.
    pub links: HashMap<(AccountId, LinkId), ChangeResult>,
}

/// Holders of external ids: as loaded, and as changed by the commit group.
#[derive(Debug, Clone, Default)]
struct ExternalIds(HashMap<ExternalIdKey, LinkId>);

/// A commit group while its commands are decided.
#[derive(Debug, Clone)]
pub struct CommitGroup<'a> {
    terms: &'a CreateTerms,
    renderer: u8,
    /// State after the commands that were decided so far.
    state: LoadedState,
    external_ids: ExternalIds,
    events: Vec<NewEvent>,
}

/// Result of a commit group.
#[derive(Debug)]
pub struct DecidedGroup {
    /// Events of the accepted commands, to be appended in this order.
    pub events: Vec<NewEvent>,
    /// Credits of each account after the commit group.
    pub credits: HashMap<AccountId, Credits>,
    /// Lower-cased slugs that were reserved for the commit group and are not used by any command: a create was
    /// rejected for its external id or expiry, or another transaction took a slug of an atomic
    /// [`BatchCreate`] after the look-up.
    pub unused_slugs: Vec<String>,
}

impl<'a> CommitGroup<'a> {
    /// Returns a commit group over the loaded state. `renderer` is the version of the code that will render
    /// the answer to a create.
    pub fn new(terms: &'a CreateTerms, renderer: u8, mut state: LoadedState) -> Self {
        Self {
            terms,
            renderer,
            external_ids: ExternalIds::new(std::mem::take(&mut state.external_ids)),
            state,
            events: Vec::new(),
        }
    }

    /// Decides the next command. Checks in this order: replay, validation, existence, precondition,
    /// expiry, service, slug, external id, credits (`docs/api.md#order-of-checks`). `ids` has [`LinkCommand::size`]
    /// ids.
    ///
    /// Returns `None` if the command must be retried: a generated slug is taken, or the account can pay the link only
    /// because an earlier command of the commit group was rejected.
    ///
    /// # Panics
    /// Panics if the account of a create is not in the loaded state, or if there are no ids.
    pub fn decide(
        &mut self,
        command: &LinkCommand,
        ids: &[DecisionInput],
    ) -> Option<CommandOutcome> {
        match command {
            LinkCommand::Create(create) => {
                let created = self.decide_create(create, &ids[0]);
                created.transpose().map(CommandOutcome::Create)
            }
            LinkCommand::Batch(batch) => {
                let created = match batch.mode {
                    BatchMode::Atomic => self.decide_atomic(&batch.creates, ids),
                    BatchMode::DryRun => Ok(self.decide_dry_run(&batch.creates, ids)),
                };
                created.transpose().map(CommandOutcome::Batch)
            }
            LinkCommand::Change(change) => {
                let changed = self.decide_change(change, &ids[0]);
                Some(CommandOutcome::Change(changed))
            }
        }
    }

    /// Returns the credits of an account of the loaded state after the commands that were decided so far.
    pub fn credits(&self, account_id: AccountId) -> Credits {
        self.state.credits[&account_id]
    }

    /// Returns `None` if no slug is reserved for the link.
    fn decide_create(
        &mut self,
        create: &KeyedCreate,
        ids: &DecisionInput,
    ) -> Outcome<Option<Created>> {
        if let Some(replay) = self.answer_for_used_key(create)? {
            return Ok(Some(replay));
        }
        match &create.body {
            Ok(draft) => self.create_link(create, draft, ids),
            Err(errors) => Err(Rejection::Invalid(errors.clone())),
        }
    }

    fn answer_for_used_key(&self, create: &KeyedCreate) -> Outcome<Option<Created>> {
        let scoped_key = (create.account_id, create.key);
        let Some(settled) = self.state.stored.get(&scoped_key) else {
            return Ok(None);
        };
        if settled.fingerprint != create.fingerprint {
            return Err(Rejection::KeyReused);
        }
        Ok(Some(Created {
            settled: Arc::clone(settled),
            is_replay: true,
        }))
    }

    fn create_link(
        &mut self,
        create: &KeyedCreate,
        draft: &LinkDraft,
        ids: &DecisionInput,
    ) -> Outcome<Option<Created>> {
        let slug = draft.slug.as_ref().unwrap_or(&ids.generated_slug);
        let slug_key = slug.key();
        let create_link = CreateLink {
            link_id: ids.link_id,
            account_id: create.account_id,
            slug: slug.clone(),
            slug_is_free: !self.state.taken_slugs.contains(&slug_key),
            external_id_holder: self.external_ids.other_holder(
                create.account_id,
                ids.link_id,
                &draft.details,
            ),
            now: ids.now,
            short_url: format!("{}/{slug}", self.terms.short_base_url),
            draft: draft.clone(),
        };
        let link = match create_link.decide() {
            Ok(link) => link,
            Err(CreateLinkError::Invalid(error)) => return Err(Rejection::Invalid(vec![error])),
            Err(CreateLinkError::ExternalIdTaken { holder }) => {
                let holder = Some(holder);
                return Err(Rejection::ExternalIdTaken { holder });
            }
            Err(CreateLinkError::SlugTaken) => {
                return match &draft.slug {
                    Some(slug) => Err(Rejection::SlugTaken(slug.clone())),
                    None => Ok(None),
                };
            }
        };
        let credits = self.state.credits.get_mut(&create.account_id);
        let credits = credits.expect("the account is locked");
        let price = self.terms.link_price;
        let charge = credits
            .decide_charge(create.account_id, price, ids.link_id, create.key_id)
            .map_err(Rejection::InsufficientCredits)?;
        // A reservation for another link would leave that link's id in the row of the slug.
        if self.state.reserved_slugs.get(&slug_key) != Some(&ids.link_id) {
            return Ok(None);
        }
        self.state.reserved_slugs.remove(&slug_key);
        self.state.taken_slugs.insert(slug_key);
        self.external_ids.give(create.account_id, &link);
        *credits = credits.apply(&CreditsEvent::Charged(charge.clone()));
        let settled = Arc::new(CreateResult {
            fingerprint: create.fingerprint,
            renderer: self.renderer,
            link,
            charge,
            created_at: ids.now,
            position: 0,
        });
        self.events
            .extend(create.events(ids, &settled, credits.version));
        let scoped_key = (create.account_id, create.key);
        self.state.stored.insert(scoped_key, Arc::clone(&settled));
        Ok(Some(Created {
            settled,
            is_replay: false,
        }))
    }

    fn decide_change(
        &mut self,
        change: &LinkChange,
        ids: &DecisionInput,
    ) -> Outcome<Arc<ChangeResult>> {
        if let ChangeRequest::Patch(Err(errors)) = &change.request {
            return Err(Rejection::Invalid(errors.clone()));
        }
        let link_id = change.link_id.ok_or(Rejection::LinkNotFound)?;
        let loaded = self.state.links.get_mut(&(change.account_id, link_id));
        let loaded = loaded.ok_or(Rejection::LinkNotFound)?;
        let events = change.request.decide(&loaded.link, ids.now)?;
        if events.is_empty() {
            return Ok(Arc::new(loaded.clone()));
        }
        let mut link = loaded.link.clone();
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            link = link.apply(&event);
            applied.push((event, link.clone()));
        }
        let account_id = change.account_id;
        let holder = self
            .external_ids
            .other_holder(account_id, link_id, &link.state.details);
        if holder.is_some() {
            return Err(Rejection::ExternalIdTaken { holder });
        }
        self.external_ids
            .change(account_id, link_id, &loaded.link.state, &link.state);
        *loaded = ChangeResult { link, position: 0 };
        self.events.extend(change.events(ids, applied));
        Ok(Arc::new(loaded.clone()))
    }

    /// Ends the commit group. Returns the events to append, the new credits of the accounts and the unused
    /// slugs.
    pub fn finish(self) -> DecidedGroup {
        DecidedGroup {
            events: self.events,
            credits: self.state.credits,
            unused_slugs: self.state.reserved_slugs.into_keys().collect(),
        }
    }
}

impl ExternalIds {
    /// Returns the holders. `loaded` has those of all external ids that the commit group requests.
    const fn new(loaded: HashMap<ExternalIdKey, LinkId>) -> Self {
        Self(loaded)
    }

    /// Returns the other link of the account that has the external id of the details, if any.
    fn other_holder(
        &self,
        account_id: AccountId,
        link_id: LinkId,
        details: &LinkDetails,
    ) -> Option<LinkId> {
        let external_id = details.external_id.clone()?;
        let holder = self.0.get(&(account_id, external_id)).copied();
        holder.filter(|holder| *holder != link_id)
    }

    /// Gives the external id of a created link to the link.
    fn give(&mut self, account_id: AccountId, created: &LinkCreated) {
        if let Some(external_id) = &created.external_id {
            let key = (account_id, external_id.clone());
            self.0.insert(key, created.link_id);
        }
    }

    /// Replaces the external id of a link. A deleted link holds none.
    fn change(
        &mut self,
        account_id: AccountId,
        link_id: LinkId,
        before: &LinkState,
        after: &LinkState,
    ) {
        if let Some(external_id) = before.held_external_id() {
            self.0.remove(&(account_id, external_id.to_owned()));
        }
        if let Some(external_id) = after.held_external_id() {
            self.0.insert((account_id, external_id.to_owned()), link_id);
        }
    }
}

#[cfg(test)]
mod tests;
