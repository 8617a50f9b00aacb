//! Check of one shard of the log, event by event, against the rules of the writers. Pure.

pub(super) mod accounts;
mod chain;
mod external_ids;
pub(super) mod findings;
pub(super) mod keys;
mod links;
mod observations;
mod reversals;
#[cfg(test)]
mod tests;
pub(super) mod texts;
pub(super) mod webhooks;

use linkledger_core::{
    account::AccountEvent,
    api_key::ApiKeyEvent,
    credits::CreditsEvent,
    envelope::Metadata,
    event::Event,
    id::{AccountId, EntryId, LinkId},
    link::LinkEvent,
    segment::Segment,
    shard::{Position, Shard},
    webhook::WebhookEvent,
};
use linkledger_event_store::{
    external_ids::ExternalIdsAtHead,
    link_expiries::ExpiriesAtHead,
    log::{ShardExtent, stored::StoredEvent},
};

use accounts::{AccountRow, Accounts};
use chain::Chain;
use external_ids::ExternalIdAudit;
use findings::Findings;
use keys::{KeyAudit, KeyRows};
use links::Links;
use observations::ObservationAudit;
use reversals::Reversals;
use texts::Texts;
use webhooks::{WebhookAudit, WebhookRows};

/// Rows that a shard is checked against.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) epoch: i32,
    /// End of the shard, up to which the events are checked.
    pub(super) extent: ShardExtent,
    /// Accounts, each as of its own head; no account was read after the end.
    pub(super) accounts: Vec<AccountRow>,
    /// Position up to which every account of an event is in `accounts`.
    pub(super) accounts_known_up_to: Position,
    pub(super) segments: Vec<Segment>,
    /// External ids as of their own head; not read after the end.
    pub(super) external_ids: ExternalIdsAtHead,
    /// Expiries of links as of their own head; not read after the end.
    pub(super) expiries: ExpiriesAtHead,
    /// API keys as of their own head; not read after the end.
    pub(super) keys: KeyRows,
    /// Webhooks as of their own head; not read after the end.
    pub(super) webhooks: WebhookRows,
    /// Entries that refunds and revocations up to the end name, and perhaps later ones.
    pub(super) reversed_entries: Vec<EntryId>,
    /// Hashes of the texts in the rows.
    pub(super) texts: Texts,
}

/// Running check of one shard.
#[derive(Debug)]
pub(super) struct Audit {
    head: Position,
    /// Position of the previous event.
    position: Position,
    before: Before,
    links: Links,
    external_ids: ExternalIdAudit,
    observations: ObservationAudit,
    accounts: Accounts,
    keys: KeyAudit,
    webhooks: WebhookAudit,
    reversals: Reversals,
    chain: Chain,
    /// Slugs of created links.
    slugs: Vec<(Position, (String, LinkId))>,
    findings: Findings,
}

/// Result of the check of a shard.
#[derive(Debug)]
pub(super) struct Audited {
    pub(super) links: usize,
    pub(super) accounts: usize,
    pub(super) keys: usize,
    pub(super) webhooks: usize,
    pub(super) findings: Findings,
}

/// Kind of the previous event: decides whether the next event must be a charge.
#[derive(Debug, Clone, Copy)]
enum Before {
    /// The event before is missing or can't be read.
    Unknown,
    /// A created link, whose charge must follow.
    Link(AccountId, LinkId),
    /// Another event, or the start of the shard.
    Other,
}

impl Expected {
    /// Returns the number of events after the last segment.
    pub(super) fn unsealed_events(&self) -> Position {
        let last = self.segments.last();
        let sealed = last.map_or(0, |segment| segment.place.last_position);
        self.extent.head.saturating_sub(sealed).max(0)
    }
}

impl Audit {
    pub(super) fn new(shard: Shard, expected: Expected) -> Self {
        let ShardExtent { head, last } = expected.extent;
        let mut findings = Findings::of(shard);
        if last != head {
            let what = format!("its last event is at position {last}, its counter is at {head}");
            findings.add(None, what);
        }
        let accounts = Accounts::new(
            shard,
            expected.accounts,
            expected.accounts_known_up_to,
            expected.texts.clone(),
            &mut findings,
        );
        let end = (expected.epoch, head);
        let chain = Chain::new(shard, expected.segments, end, &mut findings);
        Self {
            head,
            position: 0,
            before: Before::Other,
            links: Links::default(),
            external_ids: ExternalIdAudit::new(expected.external_ids),
            observations: ObservationAudit::new(expected.expiries),
            accounts,
            keys: KeyAudit::new(expected.keys, expected.texts),
            webhooks: WebhookAudit::new(expected.webhooks),
            reversals: Reversals::new(expected.reversed_entries),
            chain,
            slugs: Vec::new(),
            findings,
        }
    }

    /// Adds a finding about the event at the position.
    pub(super) fn found(&mut self, position: Position, what: String) {
        self.findings.add(Some(position), what);
    }

    /// Takes the slugs of the links that were created since the last call.
    pub(super) fn take_slugs(&mut self) -> Vec<(Position, (String, LinkId))> {
        std::mem::take(&mut self.slugs)
    }

    /// Checks the next event.
    pub(super) fn event(&mut self, stored: &StoredEvent<'_>) {
        self.stand_at(stored.position);
        self.compare_rows_before(stored.position);
        self.chain.event(stored, &mut self.findings);
        let (position, account_id) = (stored.position, stored.account_id);
        self.accounts
            .check_account(account_id, position, &mut self.findings);
        let decoded = Event::from_stored(stored.event_type, stored.schema_version, stored.payload);
        let event = self.readable(position, "event", decoded);
        if event.is_none() {
            self.note_gap();
        }
        let event = event.filter(|event| self.is_in_its_stream(stored, event));
        let metadata = serde_json::from_str(stored.metadata);
        let metadata: Option<Metadata> = self.readable(position, "metadata", metadata);
        self.check_pair(stored, event.as_ref());
        let (event, metadata) = (event.as_ref(), metadata.as_ref());
        if stored.stream_id == account_id.uuid() {
            self.apply_to_account(stored, event, metadata);
        } else {
            self.apply_to_link(stored, event, metadata);
        }
    }

    /// Ends the check after the last event.
    pub(super) fn finish(mut self) -> Audited {
        if self.position < self.head {
            self.stand_at(self.head + 1);
        }
        if let Before::Link(_, link_id) = self.before {
            let what = format!("no CreditsCharged of {link_id} follows");
            self.found(self.head, what);
        }
        self.compare_rows_before(Position::MAX);
        let (links, accounts) = (self.links.count(), self.accounts.count());
        let (keys, webhooks) = (self.keys.count(), self.webhooks.count());
        self.accounts.finish(&mut self.findings);
        self.chain.finish(&mut self.findings);
        Audited {
            links,
            accounts,
            keys,
            webhooks,
            findings: self.findings,
        }
    }

    fn stand_at(&mut self, position: Position) {
        let expected = self.position + 1;
        if position != expected {
            let last = position - 1;
            let what = match last - expected {
                0 => "the event at this position is missing".to_owned(),
                _ => format!("the events from this position to {last} are missing"),
            };
            self.found(expected, what);
            self.note_gap();
            self.before = Before::Unknown;
        }
        self.position = position;
    }

    /// Compares the rows that were read before the event at this position.
    fn compare_rows_before(&mut self, position: Position) {
        self.external_ids
            .compare_before(position, &mut self.findings);
        self.observations
            .compare_before(position, &mut self.findings);
        self.keys.compare_before(position, &mut self.findings);
        self.webhooks.compare_before(position, &mut self.findings);
    }

    /// Records that an event is missing or unreadable.
    fn note_gap(&mut self) {
        self.external_ids.note_gap();
        self.observations.note_gap();
        self.keys.note_gap();
        self.webhooks.note_gap();
        self.reversals.note_gap();
    }

    /// Checks that payload and row name the same stream and account.
    fn is_in_its_stream(&mut self, stored: &StoredEvent<'_>, event: &Event) -> bool {
        let (subject, account_id) = (event.subject(), event.account_id());
        let is_so = subject.stream_id() == stored.stream_id && account_id == stored.account_id;
        if !is_so {
            let what = format!(
                "the payload is about {subject}, account {account_id}; the row says stream {}, \
                 account {}",
                stored.stream_id, stored.account_id
            );
            self.found(stored.position, what);
        }
        let is_named = |key: &str| {
            let kind = key.split_once(':').map(|(kind, _)| kind);
            kind.is_some_and(|kind| kinds_of_keys(event).contains(&kind))
        };
        if stored.idempotency_key.is_some_and(|key| !is_named(key)) {
            let what = "an event of this type has no such idempotency key";
            self.found(stored.position, what.to_owned());
        }
        is_so
    }

    /// Adds a finding about a part of an event that can't be read.
    fn readable<T, E: Into<anyhow::Error>>(
        &mut self,
        position: Position,
        part: &str,
        read: Result<T, E>,
    ) -> Option<T> {
        let failed = |error: E| {
            let what = format!("the {part} can't be read: {:#}", error.into());
            self.found(position, what);
        };
        read.map_err(failed).ok()
    }

    /// Checks that a created link and its charge are neighbours.
    fn check_pair(&mut self, stored: &StoredEvent<'_>, event: Option<&Event>) {
        let charge = match event {
            Some(Event::Credits(CreditsEvent::Charged(charge))) => Some(charge),
            Some(_) | None => None,
        };
        let paid = charge.map(|charge| (charge.account_id, charge.link_id));
        match (self.before, paid) {
            (Before::Link(account_id, link_id), _)
                if event.is_some() && paid != Some((account_id, link_id)) =>
            {
                let what = format!(
                    "the CreditsCharged of {link_id}, created right before, should stand here"
                );
                self.found(stored.position, what);
            }
            (Before::Other, Some((_, link_id))) => {
                let what = format!(
                    "the LinkCreated of {link_id} should stand right before this CreditsCharged"
                );
                self.found(stored.position, what);
            }
            (Before::Link(..) | Before::Other | Before::Unknown, _) => {}
        }
        self.before = match event {
            Some(Event::Link(LinkEvent::Created(created))) => {
                Before::Link(created.account_id, created.link_id)
            }
            Some(_) => Before::Other,
            None => Before::Unknown,
        };
    }

    fn apply_to_account(
        &mut self,
        stored: &StoredEvent<'_>,
        event: Option<&Event>,
        metadata: Option<&Metadata>,
    ) {
        self.accounts
            .apply(stored, event, metadata, &mut self.findings);
        match event {
            Some(Event::ApiKey(event)) => self.keys.apply(stored, event, &mut self.findings),
            Some(Event::Webhook(event)) => self.webhooks.apply(stored, event, &mut self.findings),
            Some(Event::Observation(event)) => {
                if let Some(what) = self.observations.apply(stored, event) {
                    self.found(stored.position, what);
                }
            }
            Some(Event::Credits(event)) => {
                if let Some(what) = self.reversals.apply(stored, event) {
                    self.found(stored.position, format!("{}: {what}", stored.account_id));
                }
            }
            Some(Event::Account(_) | Event::Link(_)) | None => {}
        }
    }

    fn apply_to_link(
        &mut self,
        stored: &StoredEvent<'_>,
        event: Option<&Event>,
        metadata: Option<&Metadata>,
    ) {
        let (event, after) = match (event, metadata) {
            (Some(Event::Link(event)), Some(metadata)) => {
                let after = metadata.link_after(event, stored.recorded_at);
                (Some(event), after.ok())
            }
            _ => (None, None),
        };
        let after = after.as_ref();
        if let Some(LinkEvent::Created(created)) = event {
            let slug = (created.slug.clone(), created.link_id);
            self.slugs.push((stored.position, slug));
        }
        if let Some(event) = event {
            self.external_ids
                .apply(stored, event, after, &mut self.findings);
            self.observations.apply_to_link(stored, event, after);
        }
        let link_id = LinkId::from_uuid(stored.stream_id);
        for fault in self.links.apply(stored, event.map(|event| (event, after))) {
            self.found(stored.position, format!("{link_id}: {fault}"));
        }
    }
}

/// Returns the kinds of idempotency keys that an event may carry; the kind is the part before the colon.
const fn kinds_of_keys(event: &Event) -> &'static [&'static str] {
    match event {
        Event::Link(LinkEvent::Created(_)) => &["create"],
        Event::Link(LinkEvent::Disabled(_)) => &["disable"],
        Event::Link(LinkEvent::Enabled(_)) => &["enable"],
        Event::Account(AccountEvent::Created(_)) => &["account"],
        Event::Account(AccountEvent::Suspended(_)) => &["suspend"],
        Event::Account(AccountEvent::Resumed(_)) => &["resume"],
        Event::ApiKey(ApiKeyEvent::Issued(_)) => &["key"],
        Event::ApiKey(ApiKeyEvent::Rotated(_)) => &["rotate"],
        Event::Webhook(WebhookEvent::Created(_)) => &["webhook"],
        Event::Webhook(WebhookEvent::SecretRotated(_)) => &["rotate_secret"],
        Event::Credits(CreditsEvent::Granted(_)) => &["grant"],
        Event::Credits(CreditsEvent::Adjusted(_)) => &["adjust", "balance"],
        Event::Credits(CreditsEvent::Refunded(_)) => &["refund"],
        Event::Credits(CreditsEvent::Revoked(_)) => &["revocation"],
        Event::Link(
            LinkEvent::DestinationChanged(_) | LinkEvent::DetailsChanged(_) | LinkEvent::Deleted(_),
        )
        | Event::Account(AccountEvent::Changed(_))
        | Event::ApiKey(ApiKeyEvent::Changed(_) | ApiKeyEvent::Revoked(_))
        | Event::Webhook(
            WebhookEvent::Changed(_)
            | WebhookEvent::Failing(_)
            | WebhookEvent::Disabled(_)
            | WebhookEvent::Deleted(_),
        )
        | Event::Observation(_)
        | Event::Credits(CreditsEvent::Charged(_)) => &[],
    }
}
