//! Rows of the counting `values`.

use std::collections::{BTreeMap, BTreeSet};

use time::{Date, UtcOffset};

use super::retention::keeps_values;
use crate::{
    click::{
        Click, ClickKind,
        dimension::{Dimension, NO_VALUE, OTHER_VALUES, VALUES_MAX},
    },
    id::{AccountId, LinkId},
};

/// Values of a link, a day and a dimension.
pub type LinkGroup = (AccountId, LinkId, Date, Dimension);

/// Values of an account, a day and a dimension, in one partition of the topic.
pub type AccountGroup = (AccountId, Date, Dimension);

/// Human clicks and visitors of a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValueCount {
    /// Clicks with the value.
    pub clicks: u64,
    /// Hashes of the visitors, in the order of the clicks.
    pub visitors: Vec<u64>,
    /// Number of the first click with the value among the clicks of the tally.
    pub first: u64,
}

/// Counts by group and value, in the order of the tables' keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueRows<G> {
    groups: BTreeMap<G, BTreeMap<Box<str>, ValueCount>>,
    rows: usize,
}

/// Rows of dimensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// Rows of `clicks.link_values`.
    pub links: ValueRows<LinkGroup>,
    /// Rows of `clicks.account_values`, without the partition.
    pub accounts: ValueRows<AccountGroup>,
    clicks: u64,
}

impl Values {
    /// Adds a click of a human. Days that are not kept any more get no row.
    pub(super) fn add(&mut self, click: &Click, today: Date) {
        let day = click.clicked_at.to_offset(UtcOffset::UTC).date();
        if click.kind == ClickKind::Bot || !keeps_values(day, today) {
            return;
        }
        self.clicks += 1;
        for dimension in Dimension::ALL {
            let value = dimension.value_of(&click.details);
            let link = (click.account_id, click.link_id, day, dimension);
            self.links.add(link, value, click, self.clicks);
            let account = (click.account_id, day, dimension);
            self.accounts.add(account, value, click, self.clicks);
        }
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.links.rows + self.accounts.rows
    }
}

impl<G> Default for ValueRows<G> {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            rows: 0,
        }
    }
}

impl<G: Ord + Copy> ValueRows<G> {
    fn add(&mut self, group: G, value: &str, click: &Click, number: u64) {
        let values = self.groups.entry(group).or_default();
        if !values.contains_key(value) {
            self.rows += 1;
            let count = ValueCount {
                first: number,
                ..ValueCount::default()
            };
            values.insert(value.into(), count);
        }
        let count = values.get_mut(value).expect("the value was inserted");
        count.clicks += u64::from(click.count);
        count.visitors.extend(click.details.visitor);
    }

    /// Returns the groups.
    pub fn groups(&self) -> impl Iterator<Item = G> {
        self.groups.keys().copied()
    }

    /// Returns the rows: group, value, count.
    pub fn iter(&self) -> impl Iterator<Item = (G, &str, &ValueCount)> {
        self.groups.iter().flat_map(|(group, values)| {
            let values = values.iter();
            values.map(|(value, count)| (*group, &**value, count))
        })
    }

    /// Adds values beyond the first [`VALUES_MAX`] of a group to [`OTHER_VALUES`]. `stored` has the values that
    /// the tables have already; new ones follow in the order of the clicks.
    pub fn limit(&mut self, stored: &BTreeMap<G, BTreeSet<String>>) {
        let none = BTreeSet::new();
        for (group, values) in &mut self.groups {
            limit_group(values, stored.get(group).unwrap_or(&none));
        }
        self.rows = self.groups.values().map(BTreeMap::len).sum();
    }
}

fn limit_group(values: &mut BTreeMap<Box<str>, ValueCount>, stored: &BTreeSet<String>) {
    let is_counted_apart = |value: &str| value != NO_VALUE && value != OTHER_VALUES;
    let taken = stored
        .iter()
        .filter(|value| is_counted_apart(value))
        .count();
    let is_new = |value: &str| is_counted_apart(value) && !stored.contains(value);
    let new = values.iter().filter(|(value, _)| is_new(value));
    let mut new: Vec<(u64, Box<str>)> = new
        .map(|(value, count)| (count.first, value.clone()))
        .collect();
    new.sort_unstable();
    for (_, value) in new.into_iter().skip(VALUES_MAX.saturating_sub(taken)) {
        let Some(count) = values.remove(&value) else {
            continue;
        };
        let other = values.entry(OTHER_VALUES.into()).or_default();
        other.clicks += count.clicks;
        other.visitors.extend(count.visitors);
    }
}
