//! Two processes follow the log, whatever the topic delivers to them, and whatever happens to them in between.

use std::time::{Duration, Instant};

use linkledger_core::{cloud_event::PublishedEvent, id::AccountId};
use linkledger_projector::{
    operations::pause::{self, FollowerName, PauseChange},
    pipeline::{claims::Claims, followers::Followers},
    read_models::Projection,
};
use proptest::{prelude::*, sample::Index};
use tokio::runtime;

use crate::{
    events::{destination_changed, disabled, enabled},
    fixture::Fixture,
    tables::Tables,
};

#[derive(Debug, Clone)]
enum Step {
    /// Events are appended to an account.
    Append(Index),
    /// The topic delivers a stretch of the log to a process.
    Deliver {
        process: bool,
        from: Index,
        length: usize,
        flaw: Flaw,
    },
    /// A process renews its claims.
    Claim(bool),
    /// The claims of all processes expire, also those of a process that only was slow.
    Expire,
    /// A process is killed and starts again.
    Kill(bool),
    /// An operator pauses or resumes a projection.
    Pause(Index, bool),
}

/// Fault of a delivery.
#[derive(Debug, Clone)]
enum Flaw {
    None,
    Missing(Index),
    Repeated(Index),
    Reordered,
    /// The records are of the topic of another log.
    OtherEpoch(i32),
}

fn flaw() -> impl Strategy<Value = Flaw> {
    prop_oneof![
        3 => Just(Flaw::None),
        1 => any::<Index>().prop_map(Flaw::Missing),
        1 => any::<Index>().prop_map(Flaw::Repeated),
        1 => Just(Flaw::Reordered),
        1 => prop_oneof![Just(0), Just(2)].prop_map(Flaw::OtherEpoch),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let delivery = (any::<bool>(), any::<Index>(), 1..16_usize, flaw());
    prop_oneof![
        4 => any::<Index>().prop_map(Step::Append),
        8 => delivery.prop_map(|(process, from, length, flaw)| Step::Deliver {
            process, from, length, flaw
        }),
        3 => any::<bool>().prop_map(Step::Claim),
        1 => Just(Step::Expire),
        1 => any::<bool>().prop_map(Step::Kill),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(which, is_paused)| Step::Pause(which, is_paused)),
    ]
}

fn flawed(mut records: Vec<PublishedEvent>, flaw: &Flaw) -> Vec<PublishedEvent> {
    if records.is_empty() {
        return records;
    }
    match flaw {
        Flaw::None => {}
        Flaw::Missing(which) => {
            records.remove(which.index(records.len()));
        }
        Flaw::Repeated(which) => {
            let again = records[which.index(records.len())..].to_vec();
            records.extend(again);
        }
        Flaw::Reordered => records.reverse(),
        Flaw::OtherEpoch(epoch) => {
            for record in &mut records {
                record.log_epoch = *epoch;
                "{}".clone_into(&mut record.event.payload);
            }
        }
    }
    records
}

/// A process without Kafka client: the test delivers.
struct Process {
    claims: Claims,
    followers: Followers,
}

impl Process {
    fn start(fixture: &Fixture) -> Self {
        Self {
            claims: Claims::new(fixture.database.pool().clone(), "process".to_owned()),
            followers: fixture.idle_followers(),
        }
    }

    /// On a slow machine a renewal may fail, as in life.
    async fn claim(&mut self) {
        self.claims.renew(&self.followers.reports()).await.ok();
        self.followers.set_shards(&self.claims.owned());
    }

    async fn cycle(&mut self, delivered: Vec<PublishedEvent>) {
        self.followers.cycle(delivered).await.unwrap();
    }
}

async fn append(fixture: &Fixture, account_id: AccountId, nth: usize) {
    let link = fixture
        .append_links(account_id, &format!("link-{nth}"), 1)
        .await
        .remove(0);
    let changes = [
        destination_changed(&link, "https://elsewhere.example/"),
        disabled(&link),
        enabled(&link),
    ];
    fixture.append(account_id, &changes[..nth % 4]).await;
}

async fn expire(fixture: &Fixture) {
    sqlx::query("UPDATE read_model.claims SET renewed_at = renewed_at - interval '1 hour'")
        .execute(fixture.database.pool())
        .await
        .unwrap();
}

async fn change_pause(fixture: &Fixture, targets: &[FollowerName], change: PauseChange) {
    let changed = pause::change(fixture.database.pool(), targets, change, "ada", None);
    changed.await.unwrap();
}

async fn take(
    fixture: &Fixture,
    processes: &mut [Process; 2],
    accounts: &[AccountId],
    nth: usize,
    step: &Step,
) {
    match step {
        Step::Append(which) => append(fixture, *which.get(accounts), nth).await,
        Step::Deliver {
            process,
            from,
            length,
            flaw,
        } => {
            let log = fixture.log().await;
            let from = from.index(log.len());
            let to = log.len().min(from + length);
            let delivered = flawed(log[from..to].to_vec(), flaw);
            processes[usize::from(*process)].cycle(delivered).await;
        }
        Step::Claim(process) => processes[usize::from(*process)].claim().await,
        Step::Expire => expire(fixture).await,
        Step::Kill(process) => processes[usize::from(*process)] = Process::start(fixture),
        Step::Pause(which, true) => {
            let target = (*which.get(&Projection::ALL)).into();
            change_pause(fixture, &[target], PauseChange::Pause).await;
        }
        Step::Pause(which, false) => {
            let target = (*which.get(&Projection::ALL)).into();
            change_pause(fixture, &[target], PauseChange::Resume).await;
        }
    }
}

/// Lets both processes go on without the topic, until the tables are complete and stay so.
async fn complete(fixture: &Fixture, processes: &mut [Process; 2]) {
    expire(fixture).await;
    change_pause(fixture, &FollowerName::ALL, PauseChange::Resume).await;
    let expected = Tables::of_log(&fixture.log().await);
    let until = Instant::now() + Duration::from_mins(2);
    while Tables::read(fixture.database.pool()).await != expected {
        assert!(Instant::now() < until, "the tables are not complete");
        for process in &mut *processes {
            process.claim().await;
            process.cycle(Vec::new()).await;
        }
    }
    for process in &mut *processes {
        process.cycle(fixture.log().await).await;
    }
    assert_eq!(Tables::read(fixture.database.pool()).await, expected);
    for _ in 0..2 {
        for process in &mut *processes {
            process.claim().await;
        }
    }
    let owned = processes.iter().map(|it| it.claims.owned().len());
    assert_eq!(owned.collect::<Vec<_>>(), [8, 8]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_interleaving_gives_the_tables_of_a_plain_fold(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new().await;
            let mut accounts = vec![fixture.account_with_links("first", 1).await];
            accounts.push(fixture.neighbour_with_links(accounts[0], "neighbour", 1).await);
            accounts.push(fixture.account_with_links("other", 1).await);
            let mut processes = [Process::start(&fixture), Process::start(&fixture)];
            processes[0].claim().await;
            processes[0].cycle(Vec::new()).await;
            for (nth, step) in steps.iter().enumerate() {
                take(&fixture, &mut processes, &accounts, nth, step).await;
            }
            complete(&fixture, &mut processes).await;
        });
    }
}
