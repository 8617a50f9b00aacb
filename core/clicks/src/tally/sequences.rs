//! Sequences of recorders in one partition: repeats and gaps.

use std::collections::BTreeMap;

use crate::RecorderId;

/// Highest counted sequence of each recorder in one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sequences(BTreeMap<RecorderId, SequenceState>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SequenceState {
    counted: u64,
    /// Sequences that were jumped over since the state was read.
    missing: u64,
    is_changed: bool,
}

/// Change of a recorder's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceChange {
    /// Recorder of the sequence.
    pub recorder_id: RecorderId,
    /// Highest sequence that was counted.
    pub sequence: u64,
    /// Number of sequences that were jumped over.
    pub missing: u64,
}

impl Sequences {
    /// Returns the state in which these sequences are counted.
    pub fn counted(sequences: impl IntoIterator<Item = (RecorderId, u64)>) -> Self {
        let states = sequences.into_iter().map(|(recorder_id, counted)| {
            let state = SequenceState {
                counted,
                ..SequenceState::default()
            };
            (recorder_id, state)
        });
        Self(states.collect())
    }

    /// Returns true if the sequence is counted.
    pub fn has(&self, recorder_id: RecorderId, sequence: u64) -> bool {
        let state = self.0.get(&recorder_id);
        state.is_some_and(|state| sequence <= state.counted)
    }

    /// Advances to a sequence. Returns false for a repeat.
    pub fn advance(&mut self, recorder_id: RecorderId, sequence: u64) -> bool {
        let state = self.0.entry(recorder_id).or_default();
        if sequence <= state.counted {
            return false;
        }
        state.missing += sequence - state.counted - 1;
        state.counted = sequence;
        state.is_changed = true;
        true
    }

    /// Returns the changes, in the order of the recorders.
    pub fn changes(&self) -> impl Iterator<Item = SequenceChange> {
        let changed = self.0.iter().filter(|(_, state)| state.is_changed);
        changed.map(|(recorder_id, state)| SequenceChange {
            recorder_id: *recorder_id,
            sequence: state.counted,
            missing: state.missing,
        })
    }

    /// Returns the number of sequences that were jumped over.
    pub fn missing(&self) -> u64 {
        self.changes().map(|change| change.missing).sum()
    }
}
