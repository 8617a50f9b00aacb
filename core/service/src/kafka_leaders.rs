//! Requests to Kafka while a partition has no leader.

use std::{
    thread,
    time::{Duration, Instant},
};

use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

/// Delay before a broker is asked again.
const DELAY: Duration = Duration::from_millis(200);

/// Asks a broker, and asks again until `time_max` is over while a partition has no leader: during a change of leader, or
/// after the creation of the topic. Blocks.
///
/// # Errors
/// Returns the last error.
pub fn once_led<T>(time_max: Duration, ask: impl Fn() -> KafkaResult<T>) -> KafkaResult<T> {
    let until = Instant::now() + time_max;
    loop {
        let answer = ask();
        let error = answer.as_ref().err();
        let is_unled = matches!(
            error.and_then(KafkaError::rdkafka_error_code),
            Some(RDKafkaErrorCode::NotLeaderForPartition | RDKafkaErrorCode::LeaderNotAvailable)
        );
        if !is_unled || Instant::now() >= until {
            return answer;
        }
        thread::sleep(DELAY);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn partition_without_leader_is_asked_again_for_a_while() {
        let asked = Cell::new(0);
        let unled = || KafkaError::OffsetFetch(RDKafkaErrorCode::NotLeaderForPartition);
        let answer = once_led(Duration::from_mins(1), || {
            asked.set(asked.get() + 1);
            if asked.get() < 3 { Err(unled()) } else { Ok(7) }
        });
        assert_eq!((answer, asked.get()), (Ok(7), 3));
        let refused = once_led(Duration::ZERO, || Err::<(), _>(unled()));
        assert_eq!(refused, Err(unled()));
        let other = KafkaError::OffsetFetch(RDKafkaErrorCode::BrokerTransportFailure);
        let refused = once_led(Duration::from_mins(1), || Err::<(), _>(other.clone()));
        assert_eq!(refused, Err(other));
    }
}
