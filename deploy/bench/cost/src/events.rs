//! Events, from the records of the topic to rows of the read tables, in cycles of a fixed size.

use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::{
        SessionKind,
        log::{self, ReadFrom},
    },
    shard::Shard,
};
use linkledger_projector::pipeline::engine::Engine;
use sqlx::PgPool;
use tokio::runtime::Runtime;

use crate::{Counted, server::Counters};

/// Events of each shard in a cycle; a create makes two events.
const EVENTS_PER_SHARD: usize = 4;
const WARM_UP_ROUNDS: usize = 4;

/// A record as the broker delivers it.
struct Record {
    shard: Shard,
    headers: Vec<(&'static str, String)>,
    payload: String,
}

pub(crate) fn count(runtime: &Runtime, server: &Counters) -> anyhow::Result<Counted> {
    let mut rounds = runtime.block_on(rounds(&server.pool))?.into_iter();
    let connecting = async { server.counted_pool(SessionKind::Projector, 2) };
    let pool = runtime.block_on(connecting)?;
    let mut engine = Engine::new(pool);
    engine.assign(&Shard::all().collect::<Vec<_>>());
    for round in rounds.by_ref().take(WARM_UP_ROUNDS) {
        runtime.block_on(engine.cycle(delivered(&round)?))?;
    }
    let counting = runtime.block_on(server.begin())?;
    let (mut rounds_counted, mut events) = (0, 0);
    for round in rounds {
        // Work that depends on the clock is done here, uncounted: a slower machine has more such
        // work.
        runtime.block_on(engine.cycle(Vec::new()))?;
        apply(runtime, &mut engine, &round)?;
        rounds_counted += 1;
        events += round.len();
    }
    let spent = runtime.block_on(server.end(counting, rounds_counted))?;
    Ok(Counted {
        done: events,
        spent: Some(spent),
    })
}

/// Applies a round. callgrind counts this function.
#[inline(never)]
fn apply(runtime: &Runtime, engine: &mut Engine, round: &[Record]) -> anyhow::Result<()> {
    runtime.block_on(engine.cycle(delivered(round)?))
}

fn delivered(round: &[Record]) -> anyhow::Result<Vec<PublishedEvent>> {
    let published = round.iter().map(|record| {
        let headers = record.headers.iter();
        let headers = headers.map(|(name, value)| (*name, &**value)).collect();
        PublishedEvent::from_record(record.shard, &headers, record.payload.clone())
    });
    Ok(published.collect::<Result<_, _>>()?)
}

/// Returns the whole log, in rounds with the same number of events of each shard.
async fn rounds(pool: &PgPool) -> anyhow::Result<Vec<Vec<Record>>> {
    let mut rounds: Vec<Vec<Record>> = Vec::new();
    let log_epoch = log::epoch(pool).await?;
    for shard in Shard::all() {
        let from = [ReadFrom { shard, after: 0 }];
        let events = log::read_after(pool, &from, i64::from(u16::MAX)).await?;
        for (index, event) in events.into_iter().enumerate() {
            let published = PublishedEvent { event, log_epoch };
            let round = index / EVENTS_PER_SHARD;
            rounds.resize_with(rounds.len().max(round + 1), Vec::new);
            rounds[round].push(Record {
                shard,
                headers: published.headers(),
                payload: published.event.payload,
            });
        }
    }
    Ok(rounds)
}
