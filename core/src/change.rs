//! Changes of values: as requested, and as recorded in an event.

use serde::{Deserialize, Serialize};

/// Update of a value that may be absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ValueUpdate<T> {
    /// Keeps the value or its absence.
    #[default]
    Keep,
    /// Removes the value.
    Remove,
    /// Sets the value.
    Set(T),
}

impl<T> ValueUpdate<T> {
    /// Returns the update to a value that may be absent.
    pub fn to(value: Option<T>) -> Self {
        value.map_or(Self::Remove, Self::Set)
    }

    /// Returns the value that the update sets.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Remove => None,
        }
    }

    /// Returns the value after the update.
    pub fn apply_to(self, value: Option<T>) -> Option<T> {
        match self {
            Self::Keep => value,
            Self::Remove => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// Value before and after a change, of a member that always has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Change<T> {
    /// Value before the change.
    pub from: T,
    /// Value after the change.
    pub to: T,
}

impl<T: Clone + PartialEq> Change<T> {
    /// Returns the change between two values; `None` if they are equal.
    pub fn between(before: &T, after: &T) -> Option<Self> {
        (before != after).then(|| Self {
            from: before.clone(),
            to: after.clone(),
        })
    }
}

/// Value before and after a change; a value that was or is not set is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
#[schemars(inline)]
pub struct ValueChange<T> {
    /// Value before the change; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub from: Option<T>,
    /// Value after the change; absent if the value was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub to: Option<T>,
}

impl<T: Clone + PartialEq> ValueChange<T> {
    /// Returns the change between two values; `None` if they are equal.
    pub fn between(before: Option<&T>, after: Option<&T>) -> Option<Self> {
        (before != after).then(|| Self {
            from: before.cloned(),
            to: after.cloned(),
        })
    }
}
