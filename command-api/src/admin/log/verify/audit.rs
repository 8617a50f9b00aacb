//! Check of one shard of the log, event by event, against the rules of the writers. Pure.

mod accounts;
mod chain;
mod external_ids;
pub(super) mod findings;
mod links;
#[cfg(test)]
mod tests;

use linkledger_core::{
    credits::{CreditsCharged, CreditsEvent},
    envelope::Metadata,
    event::Event,
    event_store::{
        accounts::AccountAtHead,
        external_ids::ExternalIdsAtHead,
        log::{ShardExtent, stored::StoredEvent},
    },
    id::{AccountId, LinkId},
    link::LinkEvent,
    segment::Segment,
    shard::{Position, Shard},
};

use accounts::Accounts;
use chain::Chain;
use external_ids::ExternalIdAudit;
use findings::Findings;
use links::Links;

/// Rows that a shard is checked against.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) epoch: i32,
    /// End of the shard, up to which the events are checked.
    pub(super) extent: ShardExtent,
    /// Accounts, each as of its own head; no account was read after the end.
    pub(super) accounts: Vec<AccountAtHead>,
    /// Position up to which every account of an event is in `accounts`.
    pub(super) accounts_known_up_to: Position,
    pub(super) segments: Vec<Segment>,
    /// External ids as of their own head; not read after the end.
    pub(super) external_ids: ExternalIdsAtHead,
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
    accounts: Accounts,
    chain: Chain,
    slugs: Vec<SlugOf>,
    findings: Findings,
}

/// Slug of a created link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlugOf {
    pub(super) position: Position,
    pub(super) slug: String,
    pub(super) link_id: LinkId,
}

/// Result of the check of a shard.
#[derive(Debug)]
pub(super) struct Audited {
    pub(super) links: usize,
    pub(super) accounts: usize,
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
            accounts,
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
    pub(super) fn take_slugs(&mut self) -> Vec<SlugOf> {
        std::mem::take(&mut self.slugs)
    }

    /// Checks the next event.
    pub(super) fn event(&mut self, stored: &StoredEvent<'_>) {
        self.stand_at(stored.position);
        self.external_ids
            .compare_before(stored.position, &mut self.findings);
        self.chain.event(stored, &mut self.findings);
        let (position, account_id) = (stored.position, stored.account_id);
        self.accounts
            .check_account(account_id, position, &mut self.findings);
        let decoded = Event::from_stored(stored.event_type, stored.schema_version, stored.payload);
        let event = match decoded {
            Ok(event) => Some(event),
            Err(error) => {
                let error = anyhow::Error::new(error);
                self.found(position, format!("the event can't be read: {error:#}"));
                self.external_ids.note_gap();
                None
            }
        };
        let event = event.filter(|event| self.is_in_its_stream(stored, event));
        let metadata = self.metadata(stored);
        self.check_pair(stored, event.as_ref());
        if stored.stream_id == account_id.uuid() {
            let event = event.as_ref();
            self.accounts.apply(stored, event, &mut self.findings);
        } else {
            self.apply_to_link(stored, event.as_ref(), metadata.as_ref());
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
        self.external_ids
            .compare_before(Position::MAX, &mut self.findings);
        let (links, accounts) = (self.links.count(), self.accounts.count());
        self.accounts.finish(&mut self.findings);
        self.chain.finish(&mut self.findings);
        Audited {
            links,
            accounts,
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
            self.external_ids.note_gap();
            self.before = Before::Unknown;
        }
        self.position = position;
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
        let prefix = match event {
            Event::Link(LinkEvent::Created(_)) => "create:",
            Event::Credits(CreditsEvent::Granted(_)) => "grant:",
            Event::Credits(CreditsEvent::Adjusted(_)) => "adjust:",
            Event::Link(_) | Event::Account(_) | Event::Credits(CreditsEvent::Charged(_)) => "-",
        };
        if stored
            .idempotency_key
            .is_some_and(|key| !key.starts_with(prefix))
        {
            let what = "an event of this type has no such idempotency key";
            self.found(stored.position, what.to_owned());
        }
        is_so
    }

    fn metadata(&mut self, stored: &StoredEvent<'_>) -> Option<Metadata> {
        match serde_json::from_str(stored.metadata) {
            Ok(metadata) => Some(metadata),
            Err(error) => {
                let what = format!("the metadata can't be read: {error}");
                self.found(stored.position, what);
                None
            }
        }
    }

    /// Checks that a created link and its charge are neighbours.
    fn check_pair(&mut self, stored: &StoredEvent<'_>, event: Option<&Event>) {
        let charge = match event {
            Some(Event::Credits(CreditsEvent::Charged(charge))) => Some(charge),
            Some(_) | None => None,
        };
        let is_wrong = match (self.before, charge) {
            (Before::Link(account_id, link_id), Some(charge)) => {
                (charge.account_id, charge.link_id) != (account_id, link_id)
            }
            (Before::Link(..), None) => event.is_some(),
            (Before::Other, Some(_)) => true,
            (Before::Other, None) | (Before::Unknown, _) => false,
        };
        if is_wrong {
            self.found(stored.position, unpaired(self.before, charge));
        }
        self.before = match event {
            Some(Event::Link(LinkEvent::Created(created))) => {
                Before::Link(created.account_id, created.link_id)
            }
            Some(_) => Before::Other,
            None => Before::Unknown,
        };
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
            self.slugs.push(SlugOf {
                position: stored.position,
                slug: created.slug.clone(),
                link_id: created.link_id,
            });
        }
        if let Some(event) = event {
            self.external_ids
                .apply(stored, event, after, &mut self.findings);
        }
        let link_id = LinkId::from_uuid(stored.stream_id);
        for fault in self.links.apply(stored, event.map(|event| (event, after))) {
            self.found(stored.position, format!("{link_id}: {fault}"));
        }
    }
}

fn unpaired(before: Before, charge: Option<&CreditsCharged>) -> String {
    match (before, charge) {
        (Before::Link(_, link_id), _) => {
            format!("the CreditsCharged of {link_id}, created right before, should stand here")
        }
        (Before::Other | Before::Unknown, charge) => {
            let link_id = charge.map(|charge| charge.link_id.to_string());
            let link_id = link_id.unwrap_or_default();
            format!("the LinkCreated of {link_id} should stand right before this CreditsCharged")
        }
    }
}
