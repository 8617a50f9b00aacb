//! The rows do not depend on the batches into which the log is cut, nor on repeated application.

use std::collections::BTreeSet;

use linkledger_core::{
    account::{Account, AccountChangeRequest, AccountCreated, AccountEvent},
    api_key::{ApiKeyEvent, ApiKeyIssued},
    clock::{Clock as _, SystemClock, new_uuid},
    cloud_event::PublishedEvent,
    credits::{
        ChargeReason, Credits, CreditsCharged, CreditsEvent, CreditsGranted, GrantRequest,
        LowBalanceAt,
    },
    event::Event,
    id::{AccountId, EntryId, KeyId},
    json::JsonObject,
    link::{
        ChangeLink, DestinationRules, ExistingLink, ExpectedVersion, LinkEvent,
        members::parse_patch,
    },
};
use linkledger_projector::operations::parked::retry;
use proptest::{prelude::*, sample::Index};
use sqlx::PgPool;
use tokio::runtime;

use crate::{
    cache_changes::{changes, numbers, subjects_of_log},
    fixture::Fixture,
    poisoned::{paint, restore},
    tables::{Tables, read_tables},
    verified::assert_nothing_is_wrong,
};

/// Random request; the index selects one of the existing links.
#[derive(Debug, Clone)]
pub(crate) enum LinkRequest {
    Create,
    ChangeDestination(Index, u8),
    /// Sets or removes one detail, or disables or enables the link as its owner.
    ChangeDetail(Index, u8),
    Disable(Index),
    Enable(Index),
    Delete(Index),
    Suspend(bool),
    Resume,
    Rename(u8),
    IssueKey,
    Adjust(i64),
    Refund(Index),
    Revoke(i64),
}

pub(crate) fn request() -> impl Strategy<Value = LinkRequest> {
    prop_oneof![
        1 => Just(LinkRequest::Create),
        3 => (any::<Index>(), any::<u8>()).prop_map(|(link, to)| LinkRequest::ChangeDestination(link, to)),
        3 => (any::<Index>(), any::<u8>()).prop_map(|(link, to)| LinkRequest::ChangeDetail(link, to)),
        3 => any::<Index>().prop_map(LinkRequest::Disable),
        3 => any::<Index>().prop_map(LinkRequest::Enable),
        1 => any::<Index>().prop_map(LinkRequest::Delete),
        1 => any::<bool>().prop_map(LinkRequest::Suspend),
        1 => Just(LinkRequest::Resume),
        1 => any::<u8>().prop_map(LinkRequest::Rename),
        1 => Just(LinkRequest::IssueKey),
        1 => (-9..9_i64).prop_map(LinkRequest::Adjust),
        1 => any::<Index>().prop_map(LinkRequest::Refund),
        1 => (1..9_i64).prop_map(LinkRequest::Revoke),
    ]
}

/// State of an account after its events.
pub(crate) struct Owner {
    account_id: AccountId,
    links: Vec<ExistingLink>,
    account: Account,
    credits: Credits,
}

impl Owner {
    pub(crate) async fn set_up(fixture: &Fixture) -> Self {
        Self::of(fixture.account_with_links("owner", 0).await)
    }

    /// Another account in the same shard.
    pub(crate) async fn next_to(fixture: &Fixture, other: &Self) -> Self {
        let account_id = fixture.neighbour_with_links(other.account_id, "owner", 0);
        Self::of(account_id.await)
    }

    fn of(account_id: AccountId) -> Self {
        let created = AccountCreated {
            account_id,
            name: "owner".to_owned(),
            external_id: None,
            low_balance_at: LowBalanceAt::NONE,
        };
        Self {
            account_id,
            links: Vec::new(),
            account: Account::new(&created, SystemClock.now()),
            credits: Credits {
                balance: 1_000_000,
                version: 1,
                ..Credits::default()
            },
        }
    }

    /// Appends the events of a request to the log.
    pub(crate) async fn fulfil(&mut self, fixture: &Fixture, request: LinkRequest) {
        if let LinkRequest::Create = request {
            let name = format!("{}-{}", self.account_id, self.links.len());
            let created = fixture.append_links(self.account_id, &name, 1).await;
            // No decision depends on the time of the creation.
            let at = SystemClock.now();
            let created = created.iter().map(|created| ExistingLink::new(created, at));
            self.links.extend(created);
            self.credits = Credits {
                balance: self.credits.balance - 1,
                version: self.credits.version + 1,
                ..Credits::default()
            };
        } else if let Some(event) = self.decide(&request) {
            self.apply(&event);
            fixture.append(self.account_id, &[event]).await;
        }
    }

    fn decide(&self, request: &LinkRequest) -> Option<Event> {
        let link = |index: &Index| (!self.links.is_empty()).then(|| index.get(&self.links));
        match request {
            LinkRequest::Create => None,
            LinkRequest::ChangeDestination(index, to) => {
                let patch = format!(r#"{{"destination_url":"https://example.com/{to}"}}"#);
                changed(link(index)?, &patch)
            }
            LinkRequest::ChangeDetail(index, to) => {
                let name = ["title", "external_id", "expires_at", "expired_url"];
                let name = name[usize::from(to % 4)];
                let patch = match to / 4 % 5 {
                    0 => format!(r#"{{"{name}":null}}"#),
                    1 => format!(r#"{{"tags":["t{to} x","a"],"title":"{to}"}}"#),
                    2 => r#"{"disabled":true}"#.to_owned(),
                    3 => r#"{"disabled":false}"#.to_owned(),
                    _ => r#"{"expires_at":"2098-01-01T00:00:00Z","tags":null}"#.to_owned(),
                };
                changed(link(index)?, &patch)
            }
            LinkRequest::Disable(index) => {
                link(index)?.decide_disable("test").ok()?.map(Event::Link)
            }
            LinkRequest::Enable(index) => link(index)?.decide_enable("test").ok()?.map(Event::Link),
            LinkRequest::Delete(index) => {
                let deleted = link(index)?.decide_delete(&ExpectedVersion::Any).ok()??;
                Some(Event::Link(LinkEvent::Deleted(deleted)))
            }
            LinkRequest::Suspend(stop_redirects) => {
                let suspended = self.account.decide_suspend("test", *stop_redirects)?;
                Some(Event::Account(AccountEvent::Suspended(suspended)))
            }
            LinkRequest::Resume => {
                let resumed = self.account.decide_resume("test")?;
                Some(Event::Account(AccountEvent::Resumed(resumed)))
            }
            LinkRequest::Rename(to) => {
                let wanted = AccountChangeRequest {
                    name: Some(format!("owner {}", to % 4)),
                    ..AccountChangeRequest::default()
                };
                let changed = self.account.decide_change(&wanted)?;
                Some(Event::Account(AccountEvent::Changed(changed)))
            }
            LinkRequest::IssueKey => Some(Event::ApiKey(ApiKeyEvent::Issued(ApiKeyIssued {
                account_id: self.account_id,
                key_id: KeyId::from_uuid(new_uuid(SystemClock.now())),
                name: "test".to_owned(),
                scopes: Vec::new(),
                expires_at: None,
            }))),
            LinkRequest::Adjust(amount) => self.adjust(*amount).map(Event::Credits),
            LinkRequest::Refund(index) => self.refund(link(index)?).map(Event::Credits),
            LinkRequest::Revoke(amount) => Some(Event::Credits(self.revoke(*amount))),
        }
    }

    fn adjust(&self, amount: i64) -> Option<CreditsEvent> {
        let request = GrantRequest {
            amount,
            reason: "test".to_owned(),
            reference: None,
            description: (amount > 3).then(|| format!("\u{1f381} \"{amount}\"")),
        };
        let adjusted = self.credits.decide_adjust(self.account_id, &request);
        Some(CreditsEvent::Adjusted(adjusted.ok()?))
    }

    /// Gives back a charge for the link. No row depends on the charge itself.
    fn refund(&self, link: &ExistingLink) -> Option<CreditsEvent> {
        let charged = CreditsCharged {
            account_id: self.account_id,
            amount: 1,
            balance_after: 0,
            link_id: link.link_id,
            key_id: KeyId::from_uuid(new_uuid(SystemClock.now())),
            reason: ChargeReason::LinkCreated,
            low_balance: None,
        };
        let refunded = self
            .credits
            .decide_refund(self.account_id, &charged, any_entry(), "test");
        Some(CreditsEvent::Refunded(refunded.ok()?))
    }

    /// Takes back a grant of some credits. No row depends on the grant itself.
    fn revoke(&self, amount: i64) -> CreditsEvent {
        let granted = CreditsGranted {
            account_id: self.account_id,
            amount,
            balance_after: amount,
            reason: "test".to_owned(),
            reference: None,
            description: None,
        };
        let revoked = self
            .credits
            .decide_revoke(self.account_id, &granted, any_entry(), "test");
        CreditsEvent::Revoked(revoked)
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Link(event) => {
                let links = std::mem::take(&mut self.links).into_iter();
                let links = links.map(|link| {
                    if link.link_id == event.link_id() {
                        link.apply(event)
                    } else {
                        link
                    }
                });
                self.links = links.collect();
            }
            Event::Account(event) => {
                self.account = self.account.clone().apply(event);
                self.credits = self.credits.pass();
            }
            Event::ApiKey(_) | Event::Webhook(_) | Event::Observation(_) => {
                self.credits = self.credits.pass();
            }
            Event::Credits(event) => self.credits = self.credits.apply(event),
        }
    }
}

fn any_entry() -> EntryId {
    EntryId::from_uuid(new_uuid(SystemClock.now()))
}

/// Returns the event of a merge patch on a link; `None` if the link stays as it is.
fn changed(link: &ExistingLink, patch: &str) -> Option<Event> {
    let object = JsonObject::parse(patch.as_bytes()).unwrap();
    let command = ChangeLink {
        patch: parse_patch(&object, &DestinationRules::default()).unwrap(),
        expected_version: ExpectedVersion::Any,
    };
    let events = link.decide_change(&command, SystemClock.now()).ok()?;
    events.into_iter().next().map(Event::Link)
}

/// Runs an older release, restarted several times, and then a release that can decode the whole
/// log. The later release starts by itself, or after an operator's retry.
async fn park_and_release(
    fixture: &Fixture,
    log: &[PublishedEvent],
    lengths: &[usize],
    unknown: &BTreeSet<usize>,
) -> Tables {
    let pool = fixture.database.pool();
    for index in unknown {
        paint(pool, &log[*index]).await;
    }
    let painted = fixture.log().await;
    for (life, events) in painted.chunks(painted.len().div_ceil(3)).enumerate() {
        apply_in_batches(fixture, events, lengths).await;
        // The events become decodable one after the other.
        if let Some(index) = unknown.iter().nth(life) {
            restore(pool, &log[*index]).await;
        }
        retry(&pool.clone().into(), None).await.unwrap();
        assert_nothing_is_wrong(fixture).await;
    }
    for index in unknown {
        restore(pool, &log[*index]).await;
    }
    let mut followers = fixture.followers();
    // A former process may have ended before it read from the log what the topic had forged.
    followers.cycle(log.to_vec()).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    Tables::read(pool).await
}

/// Runs one process, with deliveries of the given sizes in turn.
pub(crate) async fn apply_in_batches(
    fixture: &Fixture,
    log: &[PublishedEvent],
    lengths: &[usize],
) -> Tables {
    let mut followers = fixture.followers();
    let (mut rest, mut lengths) = (log, lengths.iter().cycle());
    while !rest.is_empty() {
        let length = *lengths.next().unwrap();
        let (batch, later) = rest.split_at(length.min(rest.len()));
        followers.cycle(batch.to_vec()).await.unwrap();
        rest = later;
    }
    Tables::read(fixture.database.pool()).await
}

async fn forget(pool: &PgPool, tables: &[&str]) {
    for table in tables {
        let statement = format!("DELETE FROM read_model.{table}");
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .execute(pool)
            .await
            .unwrap();
    }
    sqlx::query("UPDATE read_model.checkpoints SET position = 0")
        .execute(pool)
        .await
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn released_accounts_equal_never_parked_accounts(
        requests in prop::collection::vec((any::<bool>(), request()), 0..40),
        lengths in prop::collection::vec(1..12_usize, 1..6),
        unknown in prop::collection::vec(any::<Index>(), 1..6),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new().await;
            let pool = fixture.database.pool();
            let first = Owner::set_up(&fixture).await;
            let second = Owner::next_to(&fixture, &first).await;
            let mut owners = [first, second];
            for (is_second, request) in requests {
                owners[usize::from(is_second)].fulfil(&fixture, request).await;
            }
            let log = fixture.log().await;
            let unknown = unknown.iter().map(|it| it.index(log.len())).collect();
            let released = park_and_release(&fixture, &log, &lengths, &unknown).await;
            assert_eq!(released, Tables::of_log(&log));
            assert_nothing_is_wrong(&fixture).await;
            let told = changes(pool).await;
            let subjects: BTreeSet<_> = told.into_iter().map(|row| (row.1, row.2)).collect();
            assert_eq!(subjects, subjects_of_log(&log));
        });
    }

    #[test]
    fn batches_replays_and_single_events_are_equivalent(
        requests in prop::collection::vec((any::<bool>(), request()), 0..40),
        lengths in prop::collection::vec(1..12_usize, 1..6),
        other_lengths in prop::collection::vec(1..40_usize, 1..6),
        had in any::<Index>(),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new().await;
            let pool = fixture.database.pool();
            let mut owners = [Owner::set_up(&fixture).await, Owner::set_up(&fixture).await];
            for (is_second, request) in requests {
                owners[usize::from(is_second)].fulfil(&fixture, request).await;
            }
            let log = fixture.log().await;
            let one_by_one = apply_in_batches(&fixture, &log, &[1]).await;
            assert_eq!(one_by_one, Tables::of_log(&log));
            assert_nothing_is_wrong(&fixture).await;

            let rows: Vec<_> = read_tables().chain(["redirect_changes"]).collect();
            forget(pool, &rows).await;
            let in_batches = apply_in_batches(&fixture, &log, &lengths).await;
            assert_eq!(in_batches, one_by_one);
            let told = changes(pool).await;
            let first = told.first().map_or(1, |row| row.0);
            let contiguous: Vec<_> = (first..).take(told.len()).collect();
            assert_eq!(numbers(pool).await, contiguous);
            let subjects: BTreeSet<_> = told.into_iter().map(|row| (row.1, row.2)).collect();
            assert_eq!(subjects, subjects_of_log(&log));

            // Projections that are set back reproduce their rows.
            forget(pool, &rows).await;
            let had = had.index(log.len() + 1);
            apply_in_batches(&fixture, &log[..had], &lengths).await;
            forget(pool, &[]).await;
            let replayed = apply_in_batches(&fixture, &log, &other_lengths).await;
            assert_eq!(replayed, one_by_one);
        });
    }
}
