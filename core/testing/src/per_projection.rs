//! Values by projection, whose number grows with each read model.

use linkledger_core::projection::{PerProjection, Projection};

/// Returns the same value for every projection.
pub fn in_all<T: Clone>(value: T) -> PerProjection<T> {
    Projection::ALL.map(|_| value.clone())
}

/// Returns the same value for every projection but the exceptions.
pub fn in_all_but<T: Clone, const N: usize>(
    value: T,
    exceptions: [(Projection, T); N],
) -> PerProjection<T> {
    let mut values = in_all(value);
    for (projection, value) in exceptions {
        values[projection.index()] = value;
    }
    values
}
