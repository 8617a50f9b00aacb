//! Rows of dimensions.

use std::collections::BTreeMap;

use time::{Date, UtcOffset};

use super::retention::keeps_values;
use crate::{Click, ClickKind, dimension::Dimension};
use linkledger_core::id::{AccountId, LinkId};

/// Human clicks and visitors of a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValueCount {
    /// Clicks with the value.
    pub clicks: u64,
    /// Hashes of the visitors, in the order of the clicks.
    pub visitors: Vec<u64>,
    /// Number of the first click with the value among the clicks of the row.
    first: u64,
}

/// Clicks of a link or an account on a UTC day, by dimension and value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValueRow {
    by_dimension: [BTreeMap<Box<str>, ValueCount>; Dimension::ALL.len()],
    clicks: u64,
}

/// Rows of dimensions, in the order of the tables' keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// Rows of `clicks.link_values`.
    pub links: BTreeMap<(AccountId, LinkId, Date), ValueRow>,
    /// Rows of `clicks.account_values`, without the partition.
    pub accounts: BTreeMap<(AccountId, Date), ValueRow>,
}

impl Values {
    /// Adds a click of a human. Days that are not kept any more get no row.
    pub(super) fn add(&mut self, click: &Click, today: Date) {
        let day = click.clicked_at.to_offset(UtcOffset::UTC).date();
        if click.kind == ClickKind::Bot || !keeps_values(day, today) {
            return;
        }
        let link = (click.account_id, click.link_id, day);
        self.links.entry(link).or_default().add(click);
        let account = (click.account_id, day);
        self.accounts.entry(account).or_default().add(click);
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.links.len() + self.accounts.len()
    }
}

impl ValueRow {
    fn add(&mut self, click: &Click) {
        self.clicks += 1;
        for (dimension, values) in Dimension::ALL.into_iter().zip(&mut self.by_dimension) {
            let value = dimension.value_of(&click.details);
            let count = match values.get_mut(value) {
                Some(count) => count,
                None => values.entry(value.into()).or_insert(ValueCount {
                    first: self.clicks,
                    ..ValueCount::default()
                }),
            };
            count.clicks += u64::from(click.count);
            count.visitors.extend(click.details.visitor);
        }
    }

    /// Returns the values of a dimension, in the order of their first clicks: in this order they become values
    /// that are counted apart.
    pub fn of(&self, dimension: Dimension) -> Vec<(&str, &ValueCount)> {
        let values = self.by_dimension[dimension as usize].iter();
        let mut values: Vec<_> = values.map(|(value, count)| (&**value, count)).collect();
        values.sort_unstable_by_key(|(_, count)| count.first);
        values
    }
}
