//! The decisions on one batch of commands (group commit), taken in arrival order.
//!
//! Pure: the batch is given what the database knows, and gives back what is to be appended.
//! What must stay true: the outcomes equal those of the same commands run one after the other.

pub mod accepted;
pub mod keyed_create;
pub mod link_change;
pub mod outcome;

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;

use crate::{
    credits::{ChargeForLink, Credits, CreditsEvent, InsufficientCredits},
    id::{AccountId, EventId, LinkId},
    json::Fingerprint,
    link::{CreateLink, ExistingLink, Link, LinkEvent, Slug},
    shard::Position,
};

pub use accepted::{Accepted, Settled};
pub use keyed_create::{IdempotencyKey, KeyedCreate, LinkDraft, SettledCreate};
pub use link_change::{ChangeRequest, LinkChange, SettledLink};
pub use outcome::{Outcome, Rejection};

/// What a create costs and where its link is served.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Price of one link, in credits.
    pub link_price: i64,
    /// Start of every short address, without a slash at its end.
    pub short_base_url: String,
}

/// What a client may ask for.
#[derive(Debug, Clone)]
pub enum Command {
    /// A new link.
    Create(KeyedCreate),
    /// A change of a link.
    Change(LinkChange),
}

impl Command {
    /// The account under whose lock it is decided.
    pub const fn account_id(&self) -> AccountId {
        match self {
            Self::Create(create) => create.account_id,
            Self::Change(change) => change.account_id,
        }
    }
}

/// What a command is stamped with right before it is decided: one clock reading, fresh ids.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Becomes `recorded_at` and `ce_time`, and of a new link `created_at`.
    pub now: OffsetDateTime,
    /// Becomes the id of a new link.
    pub link_id: LinkId,
    /// Ids of the events: at most two.
    pub event_ids: [EventId; 2],
    /// The slug of a new link if the caller chose none.
    pub generated_slug: Slug,
}

/// What the database knows of a batch's subjects, under the lock of their accounts.
#[derive(Debug, Default)]
pub struct Known {
    /// Each account of the batch.
    pub credits: HashMap<AccountId, Credits>,
    /// The keys that are used.
    pub stored: HashMap<(AccountId, IdempotencyKey), SettledCreate>,
    /// The folded slugs that are free: reserved for this batch.
    pub free_slugs: HashSet<String>,
    /// The links that are to be changed; those that are missing do not exist in their account.
    pub links: HashMap<(AccountId, LinkId), SettledLink>,
}

/// A batch while it is decided.
#[derive(Debug)]
pub struct Batch<'a> {
    terms: &'a Terms,
    renderer: u8,
    known: Known,
    accepted: Vec<Accepted>,
    accepted_by_key: HashMap<(AccountId, IdempotencyKey), (Fingerprint, usize)>,
    /// The latest change of each link that this batch has changed.
    accepted_by_link: HashMap<LinkId, usize>,
}

impl<'a> Batch<'a> {
    /// A batch over what the database knows; its creates will be rendered by `renderer`.
    pub fn new(terms: &'a Terms, renderer: u8, known: Known) -> Self {
        Self {
            terms,
            renderer,
            known,
            accepted: Vec::new(),
            accepted_by_key: HashMap::new(),
            accepted_by_link: HashMap::new(),
        }
    }

    /// Decides the next command in the order of contract §9: replay, validation, existence,
    /// precondition, slug, credits.
    ///
    /// # Panics
    /// When a create's account is not among those that the batch was given.
    pub fn decide(&mut self, command: &Command, stamp: &Stamp) -> Outcome {
        let decided = match command {
            Command::Create(create) => self.decide_create(create, stamp),
            Command::Change(change) => self.decide_change(change, stamp),
        };
        decided.unwrap_or_else(Outcome::Rejected)
    }

    fn decide_create(&mut self, create: &KeyedCreate, stamp: &Stamp) -> Result<Outcome, Rejection> {
        if let Some(outcome) = self.answer_for_used_key(create)? {
            return Ok(outcome);
        }
        match &create.body {
            Ok(draft) => self.create_link(create, draft, stamp),
            Err(errors) => Err(Rejection::Invalid(errors.clone())),
        }
    }

    fn answer_for_used_key(&self, create: &KeyedCreate) -> Result<Option<Outcome>, Rejection> {
        let scoped_key = (create.account_id, create.key);
        let (fingerprint, replay) = if let Some(settled) = self.known.stored.get(&scoped_key) {
            let replay = Outcome::Replay(Box::new(settled.clone()));
            (settled.fingerprint, replay)
        } else if let Some((fingerprint, accepted)) = self.accepted_by_key.get(&scoped_key) {
            (*fingerprint, Outcome::AcceptedBefore(*accepted))
        } else {
            return Ok(None);
        };
        if fingerprint == create.fingerprint {
            Ok(Some(replay))
        } else {
            Err(Rejection::KeyReused)
        }
    }

    fn create_link(
        &mut self,
        create: &KeyedCreate,
        draft: &LinkDraft,
        stamp: &Stamp,
    ) -> Result<Outcome, Rejection> {
        let slug = draft.slug.as_ref().unwrap_or(&stamp.generated_slug);
        let folded_slug = slug.folded();
        let created = Link::Absent.decide_create(CreateLink {
            link_id: stamp.link_id,
            account_id: create.account_id,
            slug: slug.clone(),
            slug_is_free: self.known.free_slugs.contains(&folded_slug),
            short_url: format!("{}/{slug}", self.terms.short_base_url),
            destination: draft.destination.clone(),
        });
        let link = match created {
            Ok(link) => link,
            Err(_) if draft.slug.is_none() => return Ok(Outcome::SlugCollision),
            Err(_) => return Err(Rejection::SlugTaken),
        };
        let credits = self.known.credits.get_mut(&create.account_id);
        let credits = credits.expect("the account is locked");
        let charge = credits.decide_charge(ChargeForLink {
            account_id: create.account_id,
            price: self.terms.link_price,
            link_id: stamp.link_id,
        });
        let charge = charge.map_err(|InsufficientCredits { balance, required }| {
            Rejection::InsufficientCredits { balance, required }
        })?;
        *credits = credits.apply(&CreditsEvent::Charged(charge.clone()));
        let account_version = credits.version;
        self.known.free_slugs.remove(&folded_slug);
        let accepted = self.accepted.len();
        let scoped_key = (create.account_id, create.key);
        self.accepted_by_key
            .insert(scoped_key, (create.fingerprint, accepted));
        let settled = SettledCreate {
            fingerprint: create.fingerprint,
            link,
            charge,
            created_at: stamp.now,
            renderer: self.renderer,
            position: 0,
        };
        self.accepted
            .push(Accepted::create(create, stamp, settled, account_version));
        Ok(Outcome::Accepted(accepted))
    }

    fn decide_change(&mut self, change: &LinkChange, stamp: &Stamp) -> Result<Outcome, Rejection> {
        if let ChangeRequest::Destination(Err(errors)) = &change.request {
            return Err(Rejection::Invalid(errors.clone()));
        }
        let link_id = change.link_id.ok_or(Rejection::LinkNotFound)?;
        let known = self.known.links.get_mut(&(change.account_id, link_id));
        let known = known.ok_or(Rejection::LinkNotFound)?;
        let Some(event) = change.request.decide(&known.link)? else {
            let before = self.accepted_by_link.get(&link_id);
            return Ok(before.map_or_else(
                || Outcome::Unchanged(Box::new(known.clone())),
                |accepted| Outcome::AcceptedBefore(*accepted),
            ));
        };
        known.link = known.link.clone().apply(&event);
        let settled = known.clone();
        let accepted = self.accepted.len();
        self.accepted_by_link.insert(link_id, accepted);
        self.accepted
            .push(Accepted::change(change, stamp, event, settled));
        Ok(Outcome::Accepted(accepted))
    }

    /// What is to be appended, the accounts as they are then, and the slugs that nobody took.
    pub fn finish(self) -> DecidedBatch {
        DecidedBatch {
            accepted: self.accepted,
            credits: self.known.credits,
            unused_slugs: self.known.free_slugs.into_iter().collect(),
        }
    }
}

/// What a batch comes to.
#[derive(Debug)]
pub struct DecidedBatch {
    /// To be appended, in this order.
    pub accepted: Vec<Accepted>,
    /// Each account of the batch after it.
    pub credits: HashMap<AccountId, Credits>,
    /// Reserved for the batch, but taken by none of its commands.
    pub unused_slugs: Vec<String>,
}

impl DecidedBatch {
    /// Notes where the events have come to stand; `positions` has one for each, in their order.
    pub fn set_positions(&mut self, positions: &[Position]) {
        let mut rest = positions;
        for accepted in &mut self.accepted {
            let (own, later) = rest.split_at(accepted.events.len());
            if let Some(last) = own.last() {
                accepted.settled.set_position(*last);
            }
            rest = later;
        }
    }
}

impl ChangeRequest {
    /// The event that it leads to, if any. A body with errors is decided before.
    fn decide(&self, link: &ExistingLink) -> Result<Option<LinkEvent>, Rejection> {
        match self {
            Self::Destination(Ok(change)) => {
                let changed = link.decide_change_destination(change)?;
                Ok(changed.map(LinkEvent::DestinationChanged))
            }
            Self::Destination(Err(errors)) => Err(Rejection::Invalid(errors.clone())),
            Self::Delete(expected) => Ok(link.decide_delete(expected)?.map(LinkEvent::Deleted)),
        }
    }
}

#[cfg(test)]
mod tests;
