//! Command `log verify`: checks that the log follows the rules of its writers and matches the sealed
//! segments.
//!
//! One pass over each shard, in short statements, beside running services. The pass ends at the head
//! that the shard had at the start.

mod audit;
mod expected;

use std::{
    mem,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::ProgressBar;
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::{
    log::stored::{PositionRange, StoredEvents},
    slugs,
};
use linkledger_service::number_format::{counted, per_second};
use serde::Serialize;
use sqlx::PgPool;

use super::shards;
use crate::admin::{AdminCommandOptions, print};
use audit::{
    Audit, Audited, Expected,
    findings::{Findings, LogFinding},
};

/// Number of sessions: each shard has one for the log and one for slugs.
const CONNECTIONS_MAX: u32 = 2 * shards::SHARDS_AT_ONCE;

/// Arguments of `log verify`.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Only this shard.
    #[arg(long, value_name = "NUMBER")]
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
    /// API keys, the revoked ones included.
    keys: usize,
    /// Webhooks, without the deleted ones.
    webhooks: usize,
    segments: usize,
    /// Number of events after the last segments, over all checked shards.
    unsealed_events: Position,
    seconds: f64,
    finding_count: u64,
    /// First findings; `finding_count` counts all.
    findings: Vec<LogFinding>,
}

pub(super) async fn run(verify: Verify) -> anyhow::Result<()> {
    let begun = Instant::now();
    let pool = verify.options.reader_pool(CONNECTIONS_MAX).await?;
    let mut expected = expected::read(&pool, verify.shard).await?;
    let heads = expected.each_ref().map(|expected| expected.extent.head);
    let chosen = shards::chosen(verify.shard, &heads);
    // Positions begin with 1; a gap is a finding.
    let events: Position = chosen.iter().map(|shard| heads[shard.index()]).sum();
    let events = events.unsigned_abs();
    let epoch = expected[0].epoch;
    let segments = expected.iter().map(|shard| shard.segments.len()).sum();
    let unsealed = chosen
        .iter()
        .map(|shard| expected[shard.index()].unsealed_events());
    let unsealed_events = unsealed.sum();
    let bar = shards::bar(events);
    let reports = shards::for_each(chosen, |shard| {
        let expected = mem::take(&mut expected[shard.index()]);
        verify_shard(pool.clone(), shard, expected, bar.clone())
    })
    .await;
    bar.finish_and_clear();
    let (mut links, mut accounts, mut keys, mut webhooks) = (0, 0, 0, 0);
    let mut findings = Vec::new();
    for report in reports? {
        links += report.links;
        accounts += report.accounts;
        keys += report.keys;
        webhooks += report.webhooks;
        findings.push(report.findings);
    }
    let (finding_count, findings) = Findings::total(findings);
    let verified = Verified {
        epoch,
        events,
        links,
        accounts,
        keys,
        webhooks,
        segments,
        unsealed_events,
        seconds: begun.elapsed().as_secs_f64(),
        finding_count,
        findings,
    };
    let text = verified.text(begun.elapsed());
    print(verify.options.json, &verified, &text)?;
    match verified.finding_count {
        0 => Ok(()),
        count => bail!("the log is not sound: {}", counted(count, "finding")),
    }
}

/// Reads and checks the shard up to its head: the database reads the next events while the current events are
/// checked.
async fn verify_shard(
    pool: PgPool,
    shard: Shard,
    expected: Expected,
    bar: ProgressBar,
) -> anyhow::Result<Audited> {
    let mut rest = PositionRange {
        shard,
        after: 0,
        up_to: expected.extent.head,
    };
    let mut audit = Audit::new(shard, expected);
    let mut events = shards::next_events(&pool, &mut rest).await?;
    while let Some(current) = events {
        // The read is polled first, so its statement is sent before the check begins.
        let (following, checked) = futures::join!(
            shards::next_events(&pool, &mut rest),
            check(&pool, &mut audit, &current, &bar)
        );
        checked?;
        events = following?;
    }
    Ok(audit.finish())
}

async fn check(
    pool: &PgPool,
    audit: &mut Audit,
    events: &StoredEvents,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut count = 0;
    for event in events.iter() {
        audit.event(&event.context("cannot read the log")?);
        count += 1;
    }
    bar.inc(count);
    let (positions, created): (Vec<_>, Vec<_>) = audit.take_slugs().into_iter().unzip();
    if created.is_empty() {
        return Ok(());
    }
    let lost = slugs::find_lost(pool, events.shard(), &created).await;
    for index in lost.context("cannot read the slugs")? {
        let (slug, link_id) = &created[index];
        let what = format!("the slug `{slug}` is not given to {link_id}");
        audit.found(positions[index], what);
    }
    Ok(())
}

impl Verified {
    fn text(&self, took: Duration) -> String {
        let mut lines: Vec<String> = Vec::new();
        for finding in &self.findings {
            let (shard, what) = (finding.shard, &finding.what);
            lines.push(match finding.position {
                Some(position) => format!("shard {shard}, position {position}: {what}"),
                None => format!("shard {shard}: {what}"),
            });
        }
        let more = self.finding_count - self.findings.len() as u64;
        if more > 0 {
            lines.push(format!("… and {more} more"));
        }
        let Self {
            events,
            links,
            accounts,
            keys,
            webhooks,
            segments,
            unsealed_events,
            ..
        } = self;
        lines.push(format!(
            "verified in {:.1} s ({} events/s): events {events}, links {links}, accounts \
             {accounts}, API keys {keys}, webhooks {webhooks}, sealed segments {segments}, events not sealed yet \
             {unsealed_events}; {}",
            took.as_secs_f64(),
            per_second(*events, took),
            match self.finding_count {
                0 => "nothing is wrong".to_owned(),
                count => format!("findings {count}"),
            }
        ));
        lines.join("\n")
    }
}
