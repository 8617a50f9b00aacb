//! One pass over a shard: the database reads the next events while the current events are checked.

use anyhow::Context as _;
use indicatif::ProgressBar;
use linkledger_core::{
    event_store::{
        log::stored::{PositionRange, StoredEvents},
        slugs,
    },
    shard::Shard,
};
use sqlx::PgPool;

use super::super::shards;
use super::audit::{Audit, Audited, Expected, SlugOf};

/// Reads and checks the shard up to its head.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn verify(
    pool: PgPool,
    shard: Shard,
    expected: Expected,
    bar: ProgressBar,
) -> anyhow::Result<Audited> {
    let (after, up_to) = (0, expected.extent.head);
    let mut rest = PositionRange {
        shard,
        after,
        up_to,
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
    let created = audit.take_slugs();
    if created.is_empty() {
        return Ok(());
    }
    let wanted: Vec<_> = created
        .iter()
        .map(|created| (created.slug.clone(), created.link_id))
        .collect();
    let lost = slugs::find_lost(pool, events.shard(), &wanted).await;
    for index in lost.context("cannot read the slugs")? {
        let SlugOf {
            position,
            slug,
            link_id,
        } = &created[index];
        let what = format!("the slug `{slug}` is not given to {link_id}");
        audit.found(*position, what);
    }
    Ok(())
}
