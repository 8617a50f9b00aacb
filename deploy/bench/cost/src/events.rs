//! Events, from the records of the topic to rows of the read tables, in cycles of a fixed size.

use std::collections::BTreeMap;

use linkledger_core::{
    cloud_event::{PublishedEvent, RecordKey},
    shard::{Position, Shard},
};
use linkledger_event_store::{
    SessionKind,
    log::{self, ReadFrom},
    log_meta,
};
use linkledger_projector::pipeline::followers::Followers;
use sqlx::PgPool;
use tokio::runtime::Runtime;

use crate::{Counted, server::Counters};

/// Events of each shard in a cycle; a create makes two events.
const EVENTS_PER_SHARD: usize = 4;
const WARM_UP_ROUNDS: usize = 4;

/// A record as the broker delivers it.
struct Record {
    shard: Shard,
    position: Position,
    headers: Vec<(&'static str, String)>,
    payload: String,
}

pub(crate) fn count(runtime: &Runtime, server: &Counters) -> anyhow::Result<Counted> {
    let key = runtime.block_on(log_meta::record_key(&server.pool))?;
    let mut rounds = runtime.block_on(rounds(&server.pool, &key))?.into_iter();
    let connecting = async { server.counted_pool(SessionKind::Projector, 2) };
    let pool = runtime.block_on(connecting)?;
    let mut followers = Followers::new(pool.into());
    runtime.block_on(set_heads(
        &server.pool,
        Shard::all().map(|shard| (shard, 0)),
    ))?;
    followers.set_shards(&Shard::all().collect());
    for round in rounds.by_ref().take(WARM_UP_ROUNDS) {
        runtime.block_on(followers.cycle(decode(&round, &key)?))?;
        runtime.block_on(set_heads(&server.pool, ends(&round)))?;
    }
    let mut counting = runtime.block_on(server.begin())?;
    let (mut round_trips, mut done) = (Vec::new(), 0);
    for round in rounds {
        let events = decode(&round, &key)?;
        // Work that depends on the clock is done here, uncounted: a slower machine has more such
        // work.
        runtime.block_on(followers.cycle(Vec::new()))?;
        let before = server.wire.round_trips();
        apply(runtime, &mut followers, events)?;
        round_trips.push(server.wire.round_trips() - before);
        crate::end_of("event", &Counted::of_round(round.len()))?;
        let appending = set_heads(&server.pool, ends(&round));
        runtime.block_on(server.uncounted(&mut counting, appending))?;
        done += round.len();
    }
    let mut spent = runtime.block_on(server.end(counting, round_trips.len()))?;
    // A slower machine has more round trips in some rounds.
    round_trips.sort_unstable();
    spent.round_trips = round_trips[round_trips.len() / 2];
    Ok(Counted {
        done,
        spent: Some(spent),
    })
}

/// Returns shard and position of each record. The last position of a shard is its new head.
fn ends(round: &[Record]) -> impl Iterator<Item = (Shard, Position)> {
    round.iter().map(|record| (record.shard, record.position))
}

/// Sets the heads of the log; of several heads of a shard, the last one. On a slow machine, the followers
/// would read events below a higher head from the log, before the events are delivered.
async fn set_heads(
    pool: &PgPool,
    heads: impl Iterator<Item = (Shard, Position)>,
) -> sqlx::Result<()> {
    let heads: BTreeMap<i16, Position> =
        heads.map(|(shard, head)| (shard.number(), head)).collect();
    let (shards, heads): (Vec<i16>, Vec<Position>) = heads.into_iter().unzip();
    sqlx::query(
        "UPDATE event_store.log_shards AS s SET head = new.head
         FROM unnest($1::smallint[], $2::bigint[]) AS new (shard, head)
         WHERE s.shard = new.shard",
    )
    .bind(shards)
    .bind(heads)
    .execute(pool)
    .await?;
    Ok(())
}

/// Verifies and decodes the records of a round. callgrind counts this function.
#[inline(never)]
fn decode(round: &[Record], key: &RecordKey) -> anyhow::Result<Vec<PublishedEvent>> {
    let published = round.iter().map(|record| {
        let headers = record.headers.iter();
        let headers = headers.map(|(name, value)| (*name, &**value)).collect();
        let (shard, payload) = (record.shard, &record.payload);
        anyhow::ensure!(key.verifies(shard, &headers, payload), "the code is wrong");
        Ok(PublishedEvent::from_record(
            shard,
            &headers,
            payload.clone(),
        )?)
    });
    published.collect()
}

/// Applies the events of a round. callgrind counts this function.
#[inline(never)]
fn apply(
    runtime: &Runtime,
    followers: &mut Followers,
    events: Vec<PublishedEvent>,
) -> anyhow::Result<()> {
    runtime.block_on(followers.cycle(events))
}

/// Returns the whole log, in rounds with the same number of events of each shard.
async fn rounds(pool: &PgPool, key: &RecordKey) -> anyhow::Result<Vec<Vec<Record>>> {
    let mut rounds: Vec<Vec<Record>> = Vec::new();
    let log_epoch = log_meta::epoch(pool).await?;
    for shard in Shard::all() {
        let from = [ReadFrom { shard, after: 0 }];
        let events = log::read_after(pool, &from, i64::from(u16::MAX)).await?;
        for (index, event) in events.into_iter().enumerate() {
            let published = PublishedEvent::new(event, log_epoch).signed(key);
            let round = index / EVENTS_PER_SHARD;
            rounds.resize_with(rounds.len().max(round + 1), Vec::new);
            rounds[round].push(Record {
                shard,
                position: published.event.position,
                headers: published.headers(),
                payload: published.event.payload,
            });
        }
    }
    Ok(rounds)
}
