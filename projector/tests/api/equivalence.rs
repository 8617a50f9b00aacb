//! Any division of the log into batches, and any replay, leads to the same rows.

use std::collections::BTreeSet;

use linkledger_core::{
    account::{AccountEvent, AccountStatus},
    cloud_event::PublishedEvent,
    credits::{AdjustCredits, Credits, CreditsEvent},
    event::Event,
    id::AccountId,
    link::{ChangeDestination, Destination, ExistingLink, ExpectedVersion, LinkEvent, OwnHosts},
};
use linkledger_projector::operations::parked::retry;
use proptest::{prelude::*, sample::Index};
use sqlx::PgPool;
use tokio::runtime;

use crate::{
    poisoned::{paint, restore},
    redirect_changes::{changes, numbers, subjects_of_log},
    stage::Stage,
    tables::Tables,
    verify::assert_nothing_is_wrong,
};

/// Requested change; the index chooses one of the existing links.
#[derive(Debug, Clone)]
pub(crate) enum PauseChange {
    Create,
    ChangeDestination(Index, u8),
    Disable(Index),
    Enable(Index),
    Delete(Index),
    Suspend(bool),
    Resume,
    Adjust(i64),
}

pub(crate) fn wish() -> impl Strategy<Value = PauseChange> {
    prop_oneof![
        1 => Just(PauseChange::Create),
        3 => (any::<Index>(), any::<u8>()).prop_map(|(link, to)| PauseChange::ChangeDestination(link, to)),
        3 => any::<Index>().prop_map(PauseChange::Disable),
        3 => any::<Index>().prop_map(PauseChange::Enable),
        1 => any::<Index>().prop_map(PauseChange::Delete),
        1 => any::<bool>().prop_map(PauseChange::Suspend),
        1 => Just(PauseChange::Resume),
        1 => (-9..9_i64).prop_map(PauseChange::Adjust),
    ]
}

/// State of an account after its events.
pub(crate) struct Owner {
    account_id: AccountId,
    links: Vec<ExistingLink>,
    status: AccountStatus,
    credits: Credits,
}

impl Owner {
    pub(crate) async fn set_up(stage: &Stage) -> Self {
        Self::of(stage.account_with_links("owner", 0).await)
    }

    /// Creates an account in the same shard.
    pub(crate) async fn next_to(stage: &Stage, other: &Self) -> Self {
        let account_id = stage.neighbour_with_links(other.account_id, "owner", 0);
        Self::of(account_id.await)
    }

    fn of(account_id: AccountId) -> Self {
        Self {
            account_id,
            links: Vec::new(),
            status: AccountStatus::default(),
            credits: Credits {
                balance: 1_000_000,
                version: 1,
            },
        }
    }

    /// Appends the events that result from the wish.
    pub(crate) async fn fulfil(&mut self, stage: &Stage, wish: PauseChange) {
        if let PauseChange::Create = wish {
            let name = format!("{}-{}", self.account_id, self.links.len());
            let created = stage.append_links(self.account_id, &name, 1).await;
            self.links
                .extend(created.into_iter().map(ExistingLink::new));
            self.credits = Credits {
                balance: self.credits.balance - 1,
                version: self.credits.version + 1,
            };
        } else if let Some(event) = self.decide(&wish) {
            self.apply(&event);
            stage.append(self.account_id, &[event]).await;
        }
    }

    fn decide(&self, wish: &PauseChange) -> Option<Event> {
        let account_id = self.account_id;
        let link = |index: &Index| (!self.links.is_empty()).then(|| index.get(&self.links));
        match wish {
            PauseChange::Create => None,
            PauseChange::ChangeDestination(index, to) => {
                let url = format!("https://example.com/{to}");
                let change = ChangeDestination {
                    destination: Some(Destination::parse(&url, &OwnHosts::default()).unwrap()),
                    expected_version: ExpectedVersion::Any,
                };
                let changed = link(index)?.decide_change_destination(&change).ok()??;
                Some(Event::Link(LinkEvent::DestinationChanged(changed)))
            }
            PauseChange::Disable(index) => {
                let disabled = link(index)?.decide_disable("test").ok()??;
                Some(Event::Link(LinkEvent::Disabled(disabled)))
            }
            PauseChange::Enable(index) => {
                let enabled = link(index)?.decide_enable("test").ok()??;
                Some(Event::Link(LinkEvent::Enabled(enabled)))
            }
            PauseChange::Delete(index) => {
                let deleted = link(index)?.decide_delete(&ExpectedVersion::Any).ok()??;
                Some(Event::Link(LinkEvent::Deleted(deleted)))
            }
            PauseChange::Suspend(stop_redirects) => {
                let suspended = self
                    .status
                    .decide_suspend(account_id, "test", *stop_redirects)?;
                Some(Event::Account(AccountEvent::Suspended(suspended)))
            }
            PauseChange::Resume => {
                let resumed = self.status.decide_resume(account_id, "test")?;
                Some(Event::Account(AccountEvent::Resumed(resumed)))
            }
            PauseChange::Adjust(amount) => {
                let adjust = AdjustCredits {
                    account_id,
                    amount: *amount,
                    reason: "test".to_owned(),
                };
                let adjusted = self.credits.decide_adjust(adjust).ok()?;
                Some(Event::Credits(CreditsEvent::Adjusted(adjusted)))
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Link(event) => {
                let links = std::mem::take(&mut self.links).into_iter();
                let links = links.map(|link| {
                    if link.created.link_id == event.link_id() {
                        link.apply(event)
                    } else {
                        link
                    }
                });
                self.links = links.collect();
            }
            Event::Account(event) => {
                self.status = self.status.apply(event);
                self.credits = self.credits.pass();
            }
            Event::Credits(event) => self.credits = self.credits.apply(event),
        }
    }
}

/// Applies the log with an older release in several lives, and then with a release that can read the
/// whole log.
async fn park_and_release(
    stage: &Stage,
    log: &[PublishedEvent],
    lengths: &[usize],
    unknown: &BTreeSet<usize>,
) -> Tables {
    let pool = stage.database.pool();
    for index in unknown {
        paint(pool, &log[*index]).await;
    }
    let painted = stage.log().await;
    for (life, events) in painted.chunks(painted.len().div_ceil(3)).enumerate() {
        apply_in_batches(stage, events, lengths).await;
        // One event after the other becomes readable.
        if let Some(index) = unknown.iter().nth(life) {
            restore(pool, &log[*index]).await;
        }
        retry(pool, None).await.unwrap();
        assert_nothing_is_wrong(stage).await;
    }
    for index in unknown {
        restore(pool, &log[*index]).await;
    }
    let mut engine = stage.engine();
    // Records that differ from the log are applied from the log by the next life.
    engine.cycle(log.to_vec()).await.unwrap();
    while engine.is_behind() {
        engine.cycle(Vec::new()).await.unwrap();
    }
    Tables::read(pool).await
}

/// Applies the log with one engine, in batches of these lengths in turn.
pub(crate) async fn apply_in_batches(
    stage: &Stage,
    log: &[PublishedEvent],
    lengths: &[usize],
) -> Tables {
    let mut engine = stage.engine();
    let (mut rest, mut lengths) = (log, lengths.iter().cycle());
    while !rest.is_empty() {
        let length = *lengths.next().unwrap();
        let (batch, later) = rest.split_at(length.min(rest.len()));
        engine.cycle(batch.to_vec()).await.unwrap();
        rest = later;
    }
    Tables::read(stage.database.pool()).await
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
    fn released_accounts_match_the_log(
        wishes in prop::collection::vec((any::<bool>(), wish()), 0..40),
        lengths in prop::collection::vec(1..12_usize, 1..6),
        unknown in prop::collection::vec(any::<Index>(), 1..6),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::set().await;
            let pool = stage.database.pool();
            let first = Owner::set_up(&stage).await;
            let second = Owner::next_to(&stage, &first).await;
            let mut owners = [first, second];
            for (is_second, wish) in wishes {
                owners[usize::from(is_second)].fulfil(&stage, wish).await;
            }
            let log = stage.log().await;
            let unknown = unknown.iter().map(|it| it.index(log.len())).collect();
            let released = park_and_release(&stage, &log, &lengths, &unknown).await;
            assert_eq!(released, Tables::of_log(&log));
            assert_nothing_is_wrong(&stage).await;
            let told = changes(pool).await;
            let subjects: BTreeSet<_> = told.into_iter().map(|row| (row.1, row.2)).collect();
            assert_eq!(subjects, subjects_of_log(&log));
        });
    }

    #[test]
    fn batches_and_replays_lead_to_same_rows(
        wishes in prop::collection::vec((any::<bool>(), wish()), 0..40),
        lengths in prop::collection::vec(1..12_usize, 1..6),
        other_lengths in prop::collection::vec(1..40_usize, 1..6),
        had in any::<Index>(),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::set().await;
            let pool = stage.database.pool();
            let mut owners = [Owner::set_up(&stage).await, Owner::set_up(&stage).await];
            for (is_second, wish) in wishes {
                owners[usize::from(is_second)].fulfil(&stage, wish).await;
            }
            let log = stage.log().await;
            let one_by_one = apply_in_batches(&stage, &log, &[1]).await;
            assert_eq!(one_by_one, Tables::of_log(&log));
            assert_nothing_is_wrong(&stage).await;

            let rows = ["links", "redirects", "stopped_accounts", "credit_balances",
                        "credit_entries", "redirect_changes"];
            forget(pool, &rows).await;
            let in_batches = apply_in_batches(&stage, &log, &lengths).await;
            assert_eq!(in_batches, one_by_one);
            let told = changes(pool).await;
            let first = told.first().map_or(1, |row| row.0);
            let contiguous: Vec<_> = (first..).take(told.len()).collect();
            assert_eq!(numbers(pool).await, contiguous);
            let subjects: BTreeSet<_> = told.into_iter().map(|row| (row.1, row.2)).collect();
            assert_eq!(subjects, subjects_of_log(&log));

            // Checkpoints that were set back lead to the same rows.
            forget(pool, &rows).await;
            let had = had.index(log.len() + 1);
            apply_in_batches(&stage, &log[..had], &lengths).await;
            forget(pool, &[]).await;
            let replayed = apply_in_batches(&stage, &log, &other_lengths).await;
            assert_eq!(replayed, one_by_one);
        });
    }
}
