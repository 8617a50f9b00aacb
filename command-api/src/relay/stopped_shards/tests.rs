//! Backoff of a shard whose batches are refused, while each record is accepted.

use async_trait::async_trait;

use super::*;

struct Accepting;

#[async_trait]
impl EventPublisher for Accepting {
    fn for_retries(self: Arc<Self>) -> Arc<dyn EventPublisher> {
        self
    }

    async fn publish(&self, _: &[PublishedEvent]) -> Published {
        Published::default()
    }
}

fn succeeded(shard: Shard) -> EndedRetry {
    EndedRetry {
        shard,
        events: Vec::new(),
        published: Published::default(),
        all_answered: true,
    }
}

#[test]
fn stop_after_successful_retry_has_longer_backoff() {
    let mut stopped = StoppedShards::default();
    let [shard, other] = [3, 4].map(|number| Shard::new(number).unwrap());
    for stops in 0..10 {
        stopped.stop(shard, Arc::new(Accepting));
        assert!(stops > 0 || stopped.admits(shard), "the first retry");
        stopped.handle_outcome(succeeded(shard));
        assert!(stopped.admits(shard), "the next batch may be accepted");
    }
    // A batch of another shard says nothing about this shard.
    let mut batch = Published::default();
    batch.acknowledged[other.index()] = Some(1);
    stopped.forget_backoffs(&batch);
    stopped.stop(shard, Arc::new(Accepting));
    assert!(!stopped.admits(shard), "the backoff is 5 s by now");
    stopped.handle_outcome(succeeded(shard));

    batch.acknowledged[shard.index()] = Some(1);
    stopped.forget_backoffs(&batch);
    stopped.stop(shard, Arc::new(Accepting));
    assert!(stopped.admits(shard), "a batch was published meanwhile");
}
