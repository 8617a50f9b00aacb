//! Work on whole shards, a few in parallel, with a progress bar on standard error.

use std::{cmp::Reverse, future::Future, time::Duration};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::log::{
    PerShard,
    stored::{self, EVENTS_PER_READ, PositionRange, StoredEvents},
};
use sqlx::PgPool;
use tokio::task::JoinSet;

/// Number of shards in parallel, each with its own session: more would slow the services down.
pub(super) const SHARDS_AT_ONCE: u32 = 2;

/// Interval between two drawings of a progress bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
const BAR_TEMPLATE: &str = "{bar:40} {human_pos}/{human_len} events  {per_sec}  {eta} left";

/// Returns a bar that counts events; invisible if standard error is no terminal.
pub(super) fn bar(events: u64) -> ProgressBar {
    let bar = ProgressBar::new(events);
    let style = ProgressStyle::with_template(BAR_TEMPLATE);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(BAR_INTERVAL);
    bar
}

/// Returns the shard `only`, or all shards, the longest first: so no long shard is worked on alone
/// at the end.
pub(super) fn chosen(only: Option<Shard>, heads: &PerShard<Position>) -> Vec<Shard> {
    let mut shards: Vec<Shard> = only.map_or_else(|| Shard::all().collect(), |shard| vec![shard]);
    shards.sort_by_key(|shard| Reverse(heads[shard.index()]));
    shards
}

/// Does the work for each shard, and returns the results in the order of the shards.
///
/// # Errors
/// Returns the first error, and aborts the work on other shards.
pub(super) async fn for_each<T, F>(
    shards: Vec<Shard>,
    mut work: impl FnMut(Shard) -> F,
) -> anyhow::Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
{
    let mut waiting = shards.into_iter();
    let mut under_way = JoinSet::new();
    let mut results = Vec::new();
    loop {
        while under_way.len() < SHARDS_AT_ONCE as usize
            && let Some(shard) = waiting.next()
        {
            let work = work(shard);
            under_way.spawn(async move { (shard, work.await) });
        }
        let Some(ended) = under_way.join_next().await else {
            break;
        };
        let (shard, result) = ended.context("the work on a shard has panicked")?;
        results.push((shard, result.with_context(|| format!("shard {shard}"))?));
    }
    results.sort_by_key(|(shard, _)| *shard);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Reads the next events of the rest of a shard, and moves the rest behind the events. Returns `None`
/// at the end of the rest. No session is held afterwards.
pub(super) async fn next_events(
    pool: &PgPool,
    rest: &mut PositionRange,
) -> anyhow::Result<Option<StoredEvents>> {
    if rest.after >= rest.up_to {
        return Ok(None);
    }
    let next = PositionRange {
        up_to: rest.up_to.min(rest.after + EVENTS_PER_READ),
        ..*rest
    };
    let events = stored::read_stored(pool, next).await;
    rest.after = next.up_to;
    events.context("cannot read the log").map(Some)
}
