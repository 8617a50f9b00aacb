//! The decisions on one batch of creates (group commit), taken in arrival order.
//!
//! Pure: the batch is given what the database knows, and gives back what is to be appended.
//! What must stay true: the outcomes equal those of the same commands run one after the other.

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    credits::{ChargeForLink, Credits, CreditsCharged, CreditsEvent, InsufficientCredits},
    envelope::{IdempotencyMark, Metadata, NewEvent},
    event::Event,
    field::FieldError,
    id::{AccountId, EventId, LinkId},
    json::Fingerprint,
    link::{CreateLink, Destination, Link, LinkCreated, LinkEvent, Slug},
    shard::Position,
};

/// What a create costs and where its link is served.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Price of one link, in credits.
    pub link_price: i64,
    /// Start of every short address, without a slash at its end.
    pub short_base_url: String,
}

/// The caller's key of one create; scope: the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(pub Uuid);

impl IdempotencyKey {
    /// The form in which the key stands on the event.
    pub fn stored(self) -> String {
        format!("create:{}", self.0.hyphenated())
    }
}

/// A create as it waits for its batch.
#[derive(Debug, Clone)]
pub struct KeyedCreate {
    /// Who pays.
    pub account_id: AccountId,
    /// The caller's key.
    pub key: IdempotencyKey,
    /// Of the request's body.
    pub fingerprint: Fingerprint,
    /// The link that is asked for, or what is wrong with the body: a used key is answered all
    /// the same.
    pub body: Result<LinkDraft, Vec<FieldError>>,
    /// Circumstances of the request.
    pub metadata: Metadata,
}

/// The link that a valid body asks for.
#[derive(Debug, Clone)]
pub struct LinkDraft {
    /// The slug that the caller chose.
    pub slug: Option<Slug>,
    /// Where the link shall point to.
    pub destination: Destination,
}

/// What a create is stamped with right before it is decided: one clock reading, fresh ids.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Becomes `created_at`, `recorded_at` and `ce_time`.
    pub now: OffsetDateTime,
    /// Becomes the id of the link.
    pub link_id: LinkId,
    /// Ids of `LinkCreated` and `CreditsCharged`.
    pub event_ids: [EventId; 2],
    /// The slug to use if the caller chose none.
    pub generated_slug: Slug,
}

/// A create that had its effect: all that its answer, now or on replay, is rendered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledCreate {
    /// Of the body that had the effect.
    pub fingerprint: Fingerprint,
    /// The fact about the link.
    pub link: LinkCreated,
    /// The fact about the credits.
    pub charge: CreditsCharged,
    /// When both were decided.
    pub created_at: OffsetDateTime,
    /// Which renderer wrote the first answer.
    pub renderer: u8,
    /// Where `CreditsCharged`, the later of the two, stands.
    pub position: Position,
}

/// A create that this batch accepts; effective once the batch is committed.
#[derive(Debug, Clone)]
pub struct AcceptedCreate {
    /// `LinkCreated` and `CreditsCharged`, to stand side by side in the log.
    pub events: [NewEvent; 2],
    /// The same for the answer; its position is known after the append.
    pub settled: SettledCreate,
}

/// What becomes of one command of the batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It has its effect: the number of the [`AcceptedCreate`].
    Accepted(usize),
    /// An earlier command of this batch had the effect.
    ReplayOfAccepted(usize),
    /// The effect is in the log already.
    Replay(Box<SettledCreate>),
    /// The key had another effect.
    KeyReused,
    /// The body breaks these rules.
    Invalid(Vec<FieldError>),
    /// The chosen slug is taken.
    SlugTaken,
    /// Our slug is taken: draw another one.
    SlugCollision,
    /// The balance does not cover the price.
    InsufficientCredits {
        /// What is there.
        balance: i64,
        /// What is needed.
        required: i64,
    },
}

/// A batch while it is decided.
#[derive(Debug)]
pub struct Batch<'a> {
    terms: &'a Terms,
    renderer: u8,
    credits: HashMap<AccountId, Credits>,
    stored: HashMap<(AccountId, IdempotencyKey), SettledCreate>,
    free_slugs: HashSet<String>,
    accepted: Vec<AcceptedCreate>,
    accepted_by_key: HashMap<(AccountId, IdempotencyKey), usize>,
}

impl<'a> Batch<'a> {
    /// A batch over what the database knows: the locked accounts, the keys that are used, and
    /// which folded slugs are free (reserved for this batch).
    pub fn new(
        terms: &'a Terms,
        renderer: u8,
        credits: HashMap<AccountId, Credits>,
        stored: HashMap<(AccountId, IdempotencyKey), SettledCreate>,
        free_slugs: HashSet<String>,
    ) -> Self {
        Self {
            terms,
            renderer,
            credits,
            stored,
            free_slugs,
            accepted: Vec::new(),
            accepted_by_key: HashMap::new(),
        }
    }

    /// Decides the next command in the order of contract §9: replay, validation, slug, credits.
    ///
    /// # Panics
    /// When the command's account is not among those that the batch was given.
    pub fn decide(&mut self, create: &KeyedCreate, stamp: &Stamp) -> Outcome {
        if let Some(outcome) = self.answer_for_used_key(create) {
            return outcome;
        }
        match &create.body {
            Ok(draft) => self.create_link(create, draft, stamp),
            Err(errors) => Outcome::Invalid(errors.clone()),
        }
    }

    fn answer_for_used_key(&self, create: &KeyedCreate) -> Option<Outcome> {
        let scoped_key = (create.account_id, create.key);
        let (settled, replay) = if let Some(settled) = self.stored.get(&scoped_key) {
            (settled, Outcome::Replay(Box::new(settled.clone())))
        } else {
            let accepted = *self.accepted_by_key.get(&scoped_key)?;
            (
                &self.accepted[accepted].settled,
                Outcome::ReplayOfAccepted(accepted),
            )
        };
        let is_same_request = settled.fingerprint == create.fingerprint;
        Some(if is_same_request {
            replay
        } else {
            Outcome::KeyReused
        })
    }

    fn create_link(&mut self, create: &KeyedCreate, draft: &LinkDraft, stamp: &Stamp) -> Outcome {
        let slug = draft.slug.as_ref().unwrap_or(&stamp.generated_slug);
        let folded_slug = slug.folded();
        let created = Link::Absent.decide_create(CreateLink {
            link_id: stamp.link_id,
            account_id: create.account_id,
            slug: slug.clone(),
            slug_is_free: self.free_slugs.contains(&folded_slug),
            short_url: format!("{}/{slug}", self.terms.short_base_url),
            destination: draft.destination.clone(),
        });
        let link = match created {
            Ok(link) => link,
            Err(_) if draft.slug.is_none() => return Outcome::SlugCollision,
            Err(_) => return Outcome::SlugTaken,
        };
        let credits = self
            .credits
            .get_mut(&create.account_id)
            .expect("the account is locked");
        let charge = match credits.decide_charge(ChargeForLink {
            account_id: create.account_id,
            price: self.terms.link_price,
            link_id: stamp.link_id,
        }) {
            Ok(charge) => charge,
            Err(InsufficientCredits { balance, required }) => {
                return Outcome::InsufficientCredits { balance, required };
            }
        };
        *credits = credits.apply(&CreditsEvent::Charged(charge.clone()));
        let account_version = credits.version;
        self.free_slugs.remove(&folded_slug);
        let accepted = self.accepted.len();
        self.accepted_by_key
            .insert((create.account_id, create.key), accepted);
        let settled = SettledCreate {
            fingerprint: create.fingerprint,
            link,
            charge,
            created_at: stamp.now,
            renderer: self.renderer,
            position: 0,
        };
        self.accepted
            .push(AcceptedCreate::new(create, stamp, settled, account_version));
        Outcome::Accepted(accepted)
    }

    /// What is to be appended, the accounts as they are then, and the slugs that nobody took.
    pub fn finish(self) -> DecidedBatch {
        DecidedBatch {
            accepted: self.accepted,
            credits: self.credits,
            unused_slugs: self.free_slugs.into_iter().collect(),
        }
    }
}

/// What a batch comes to.
#[derive(Debug)]
pub struct DecidedBatch {
    /// To be appended, in this order.
    pub accepted: Vec<AcceptedCreate>,
    /// Each account of the batch after it.
    pub credits: HashMap<AccountId, Credits>,
    /// Reserved for the batch, but taken by none of its commands.
    pub unused_slugs: Vec<String>,
}

impl AcceptedCreate {
    fn new(
        create: &KeyedCreate,
        stamp: &Stamp,
        settled: SettledCreate,
        account_version: i64,
    ) -> Self {
        let [link_event_id, charge_event_id] = stamp.event_ids;
        let link_created = NewEvent {
            event_id: link_event_id,
            account_id: create.account_id,
            version: 1,
            recorded_at: stamp.now,
            event: Event::Link(LinkEvent::Created(settled.link.clone())),
            metadata: Metadata {
                renderer: Some(settled.renderer),
                ..create.metadata.clone()
            },
            idempotency: Some(IdempotencyMark {
                key: create.key.stored(),
                fingerprint: create.fingerprint,
            }),
        };
        let credits_charged = NewEvent {
            event_id: charge_event_id,
            account_id: create.account_id,
            version: account_version,
            recorded_at: stamp.now,
            event: Event::Credits(CreditsEvent::Charged(settled.charge.clone())),
            metadata: create.metadata.clone(),
            idempotency: None,
        };
        Self {
            events: [link_created, credits_charged],
            settled,
        }
    }
}

#[cfg(test)]
mod tests;
