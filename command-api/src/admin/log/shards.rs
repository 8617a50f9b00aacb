//! Work on whole shards, some of them at once.

use std::{cmp::Reverse, future::Future};

use anyhow::Context as _;
use linkledger_core::{
    event_store::log::PerShard,
    shard::{Position, Shard},
};
use tokio::task::JoinSet;

/// Shards that are worked on at once, each with a session of its own: more would take from the
/// services what they need.
pub(super) const SHARDS_AT_ONCE: u32 = 2;

/// The shard of that number, or all of them; the longest first, so that none is left alone.
pub(super) fn chosen(only: Option<Shard>, heads: &PerShard<Position>) -> Vec<Shard> {
    let mut shards: Vec<Shard> = only.map_or_else(|| Shard::all().collect(), |it| vec![it]);
    shards.sort_by_key(|shard| Reverse(heads[shard.index()]));
    shards
}

/// Does the work for each shard; the results are in the order of the shards' numbers.
///
/// # Errors
/// The first one; what is under way is given up.
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

/// For clap.
pub(super) fn parse(text: &str) -> Result<Shard, String> {
    let number = text.parse().ok();
    number
        .and_then(Shard::new)
        .ok_or_else(|| "shards have the numbers 0 to 15".to_owned())
}
