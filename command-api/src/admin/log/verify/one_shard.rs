//! One pass over a shard: while events are checked, the database reads the next ones.

use anyhow::Context as _;
use indicatif::ProgressBar;
use linkledger_core::event_store::{
    log::stored::{self, EVENTS_PER_READ, PositionRange, StoredEvents},
    slugs,
};
use sqlx::PgPool;

use super::audit::{Audit, Audited, Expected};

/// Reads the shard up to its head and checks it.
///
/// # Errors
/// When the database does not answer.
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
        // The first is polled first: its statement is on its way before the check begins.
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
    let mut session = pool.acquire().await.context("can't read the log")?;
    let events = stored::read_stored(&mut session, stretch).await;
    events.context("can't read the log").map(Some)
}

async fn check(
    pool: &PgPool,
    audit: &mut Audit,
    events: &StoredEvents,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut count = 0;
    for event in events.iter() {
        audit.event(&event.context("can't read the log")?);
        count += 1;
    }
    bar.inc(count);
    let created = audit.take_slugs();
    if created.is_empty() {
        return Ok(());
    }
    let wanted: Vec<_> = created
        .iter()
        .map(|it| (it.slug.clone(), it.link_id))
        .collect();
    let lost = slugs::find_lost(pool, events.shard(), &wanted).await;
    for index in lost.context("can't read the slugs")? {
        let it = &created[index];
        audit.found(Some(it.position), || {
            format!("the slug `{}` is not given to {}", it.slug, it.link_id)
        });
    }
    Ok(())
}
