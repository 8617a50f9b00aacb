//! One pass over a shard: the database reads the next events while the current events are checked.

use anyhow::Context as _;
use indicatif::ProgressBar;
use linkledger_core::event_store::{
    log::stored::{self, EVENTS_PER_READ, PositionRange, StoredEvents},
    slugs,
};
use sqlx::PgPool;

use super::audit::{Audit, Audited, Expected, SlugOf};

/// Reads and checks the shard up to its head.
///
/// # Errors
/// Returns an error if the database does not answer.
pub(super) async fn verify(
    pool: PgPool,
    expected: Expected,
    bar: ProgressBar,
) -> anyhow::Result<Audited> {
    let (shard, head) = (expected.shard, expected.head);
    let mut stretches = (0..head)
        .step_by(usize::try_from(EVENTS_PER_READ).expect("some thousand"))
        .map(|after| PositionRange {
            shard,
            after,
            up_to: head.min(after + EVENTS_PER_READ),
        });
    let mut audit = Audit::new(expected);
    let mut events = read(&pool, stretches.next()).await?;
    while let Some(current) = events {
        // The read is polled first, so its statement is sent before the check begins.
        let (following, checked) = futures::join!(
            read(&pool, stretches.next()),
            check(&pool, &mut audit, &current, &bar)
        );
        checked?;
        events = following?;
    }
    Ok(audit.finish())
}

async fn read(
    pool: &PgPool,
    stretch: Option<PositionRange>,
) -> anyhow::Result<Option<StoredEvents>> {
    let Some(stretch) = stretch else {
        return Ok(None);
    };
    let mut session = pool.acquire().await.context("cannot read the log")?;
    let events = stored::read_stored(&mut session, stretch).await;
    events.context("cannot read the log").map(Some)
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
        audit.found(Some(*position), || {
            format!("the slug `{slug}` is not given to {link_id}")
        });
    }
    Ok(())
}
