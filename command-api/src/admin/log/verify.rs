//! Command `log verify`: checks that the log follows the rules of its writers and matches the sealed
//! segments.
//!
//! One pass over each shard, beside running services, in short statements, up to the heads at the
//! begin.

mod audit;
mod one_shard;
mod snapshot;

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::bail;
use clap::Args;
use linkledger_core::shard::{Position, Shard};
use serde::Serialize;

use super::{progress, shards};
use crate::admin::{AdminCommandOptions, print};
use audit::findings::{Finding, Findings};
use snapshot::Snapshot;

/// Number of sessions: each shard has one for the log and one for slugs.
const CONNECTIONS_MAX: u32 = 2 * shards::SHARDS_AT_ONCE;

/// Arguments of `log verify`.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Only this shard.
    #[arg(long, value_name = "NUMBER", value_parser = shards::parse)]
    shard: Option<Shard>,
    #[command(flatten)]
    options: AdminCommandOptions,
}

/// Size of the log, and the findings.
#[derive(Debug, Serialize)]
struct Verified {
    epoch: i32,
    events: u64,
    links: usize,
    accounts: usize,
    segments: usize,
    /// Number of events after the last segment of each shard.
    unsealed_events: Position,
    seconds: f64,
    finding_count: u64,
    /// First findings.
    findings: Vec<Finding>,
}

pub(super) async fn run(verify: Verify) -> anyhow::Result<()> {
    let begun = Instant::now();
    let pool = verify.options.reader_pool(CONNECTIONS_MAX).await?;
    let mut snapshot = Snapshot::read(&pool, verify.shard).await?;
    let heads = snapshot.extents.map(|extent| extent.head);
    let chosen = shards::chosen(verify.shard, &heads);
    let events: Position = chosen.iter().map(|shard| heads[shard.index()]).sum();
    let events = events.unsigned_abs();
    let mut findings = Findings::default();
    for shard in &chosen {
        let extent = snapshot.extents[shard.index()];
        if extent.last != extent.head {
            findings.add(*shard, None, || {
                let (last, head) = (extent.last, extent.head);
                format!("its last event is at position {last}, its counter is at {head}")
            });
        }
    }
    let segments = snapshot.segment_count();
    let unsealed_events = snapshot.unsealed_count(&chosen);
    let bar = progress::bar(events);
    let reports = shards::for_each(chosen, |shard| {
        one_shard::verify(pool.clone(), snapshot.take(shard), bar.clone())
    })
    .await;
    bar.finish_and_clear();
    let (mut links, mut accounts) = (0, 0);
    for report in reports? {
        links += report.links;
        accounts += report.accounts;
        findings.append(report.findings);
    }
    let verified = Verified {
        epoch: snapshot.epoch,
        events,
        links,
        accounts,
        segments,
        unsealed_events,
        seconds: begun.elapsed().as_secs_f64(),
        finding_count: findings.count(),
        findings: findings.first().to_vec(),
    };
    let text = verified.text(begun.elapsed());
    print(&verify.options, &verified, &text)?;
    match verified.finding_count {
        0 => Ok(()),
        1 => bail!("the log is not sound: 1 finding"),
        count => bail!("the log is not sound: {count} findings"),
    }
}

impl Verified {
    fn text(&self, took: Duration) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let Finding {
                shard,
                position,
                what,
            } = finding;
            match position {
                Some(position) => writeln!(text, "shard {shard}, position {position}: {what}"),
                None => writeln!(text, "shard {shard}: {what}"),
            }
            .expect("writing to a string never fails");
        }
        let more = self.finding_count - self.findings.len() as u64;
        if more > 0 {
            writeln!(text, "… and {more} more").expect("writing to a string never fails");
        }
        let Self {
            events,
            links,
            accounts,
            segments,
            unsealed_events,
            ..
        } = self;
        write!(
            text,
            "verified in {:.1} s ({} events/s): events {events}, links {links}, accounts \
             {accounts}, sealed segments {segments}, events not sealed yet {unsealed_events}; {}",
            took.as_secs_f64(),
            progress::per_second(*events, took),
            match self.finding_count {
                0 => "nothing is wrong".to_owned(),
                count => format!("findings {count}"),
            }
        )
        .expect("writing to a string never fails");
        text
    }
}
