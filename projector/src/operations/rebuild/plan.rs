//! What a rebuild would begin with: a new generation, or the one that was begun before.

use anyhow::Context as _;
use linkledger_core::event_store::log::{self, PerShard};
use sqlx::PgPool;

use super::{
    Build,
    catch_up::{is_same_log, rest},
    generation::{self, Generation},
};
use crate::{pipeline::checkpoint::Role, read_models::Projection};

/// What a rebuild would begin with.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What would be built.
    pub build: Build,
    /// Whether it was begun before.
    pub is_begun: bool,
    /// Begun for an earlier epoch of the log, or half dropped: it goes.
    pub stale: Option<i32>,
    /// The epoch of the log.
    pub epoch: i32,
    /// How many events would be read.
    pub events: u64,
}

/// Looks what a rebuild would begin with; changes nothing.
///
/// # Errors
/// When the log has lost events and was not given another epoch, or the database does not answer.
pub async fn plan(pool: &PgPool, projection: Projection) -> anyhow::Result<Plan> {
    let known = generation::list(pool, projection)
        .await
        .context("can't read the generations")?;
    let live = generation::active(pool, projection)
        .await
        .context("can't read which generation is served")?;
    is_same_log(pool, projection, live).await?;
    let end = log::end(pool).await.context("can't read the log's end")?;
    // One that is served by now is not begun with again, whatever is noted of it.
    let begun = known
        .iter()
        .find(|it| it.phase.is_building() && it.number != live);
    let build_of = |generation| Build {
        projection,
        generation,
        role: Role::Building,
        live,
    };
    let mut stale = None;
    if let Some(Generation { number, .. }) = begun {
        let build = build_of(*number);
        let standing = build.standing(pool).await?;
        if standing.epoch == end.epoch {
            return Ok(Plan {
                build,
                is_begun: true,
                stale,
                epoch: end.epoch,
                events: rest(&standing.positions, &end.heads),
            });
        }
        stale = Some(*number);
    }
    let highest = generation::highest(pool, projection)
        .await
        .context("can't read which numbers are given out")?;
    let number = highest.unwrap_or(live).max(live) + 1;
    Ok(Plan {
        build: build_of(number),
        is_begun: false,
        stale,
        epoch: end.epoch,
        events: rest(&PerShard::default(), &end.heads),
    })
}

/// How many events the generation lacks.
///
/// # Errors
/// When the database does not answer.
pub async fn events_to_head(pool: &PgPool, build: Build) -> anyhow::Result<u64> {
    let heads = log::heads(pool)
        .await
        .context("cannot read the heads of the log")?;
    Ok(rest(&build.standing(pool).await?.positions, &heads))
}
