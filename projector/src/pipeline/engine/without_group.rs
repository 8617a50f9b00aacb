//! Serves shards that no process serves, while the consumer group does not answer: a projector that
//! starts while Kafka is away reads the event store.

use std::collections::BTreeMap;

use anyhow::Context as _;
use linkledger_core::{
    event_store::{
        log,
        time_limit::{ANSWER_TIME_MAX, within},
    },
    shard::{Position, Shard},
};

use super::{Engine, shard_assignment::ShardAssignment};
use crate::pipeline::checkpoint;

impl Engine {
    /// Assigns the shards without progress to this process: shards whose checkpoints are below the head
    /// of the log, and have not moved since the previous call. If another process serves such a shard after
    /// all, a checkpoint advances, and this process gives the shard up.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn assign_without_group(&mut self) -> anyhow::Result<()> {
        let is_unassigned = |shard: &Shard| !self.assignments.contains_key(shard);
        let unassigned: Vec<Shard> = Shard::all().filter(is_unassigned).collect();
        let reading = async {
            let rows = checkpoint::load_live(&self.databases.read, &unassigned).await?;
            Ok::<_, sqlx::Error>((rows, log::end(&self.databases.log).await?))
        };
        let (rows, end) = within(ANSWER_TIME_MAX, reading)
            .await
            .context("cannot read the checkpoints of unassigned shards")?;
        let mut floors: BTreeMap<Shard, Position> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.is_paused) {
            let floor = floors.entry(row.shard).or_insert(Position::MAX);
            *floor = row.checkpoint.position.min(*floor);
        }
        let stalled: Vec<Shard> = floors
            .iter()
            .filter(|(shard, floor)| {
                **floor < end.heads[shard.index()]
                    && self.unassigned_floors.get(shard) == Some(floor)
            })
            .map(|(shard, _)| *shard)
            .collect();
        self.unassigned_floors = floors;
        if stalled.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            ?stalled,
            "the consumer group does not answer, and no process applies events of these shards; this \
             process reads the events from the event store"
        );
        self.assignments.extend(stalled.into_iter().map(|shard| {
            let mut assignment = ShardAssignment::new();
            assignment.may_be_taken_over = true;
            (shard, assignment)
        }));
        Ok(())
    }
}
