//! Place of a reader in the feed of an account, which cursors carry.

use linkledger_core::{cursor::Place, shard::Position};
use linkledger_event_store::log::feed::FeedPlace;

/// Place in one epoch of the log: after a restore, positions name other events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EpochPlace {
    pub(crate) epoch: i32,
    pub(crate) place: FeedPlace,
}

impl Place for EpochPlace {
    fn to_bytes(&self) -> Vec<u8> {
        let FeedPlace { position, version } = self.place;
        let epoch = self.epoch.to_be_bytes().into_iter();
        let place = [position.to_be_bytes(), version.to_be_bytes()];
        epoch.chain(place.into_iter().flatten()).collect()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (epoch, rest) = bytes.split_first_chunk::<4>()?;
        let (position, rest) = rest.split_first_chunk::<8>()?;
        Some(Self {
            epoch: i32::from_be_bytes(*epoch),
            place: FeedPlace {
                position: Position::from_be_bytes(*position),
                version: i64::from_be_bytes(rest.try_into().ok()?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip() {
        for (epoch, position, version) in [
            (1, 0, 0),
            (3, 4711, 42),
            (i32::MIN, i64::MIN, i64::MAX),
            (i32::MAX, i64::MAX, i64::MIN),
        ] {
            let place = FeedPlace { position, version };
            let place = EpochPlace { epoch, place };
            assert_eq!(EpochPlace::of_bytes(&place.to_bytes()), Some(place));
        }
        for length in [0, 4, 12, 19, 21] {
            assert_eq!(EpochPlace::of_bytes(&vec![0; length]), None, "{length}");
        }
    }
}
