//! Rows of slots of 15 min and of days.

use std::collections::BTreeMap;

use time::{Date, OffsetDateTime, UtcOffset};

use super::retention::keeps_slots;
use crate::{Click, ClickKind};
use linkledger_core::id::{AccountId, LinkId};

const SLOT_SECONDS: i64 = 15 * 60;

/// Number of clicks by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindCount {
    /// Clicks of humans.
    pub clicks: u64,
    /// Clicks of bots.
    pub bots: u64,
}

/// Clicks and visitors of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayCount {
    /// Clicks of the day.
    pub count: KindCount,
    /// Hashes of the visitors, in the order of the clicks.
    pub visitors: Vec<u64>,
}

/// Rows of slots and days, each table in the order of its key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows of `clicks.link_15min`.
    pub link_15min: BTreeMap<(AccountId, LinkId, OffsetDateTime), KindCount>,
    /// Rows of `clicks.link_days`.
    pub link_days: BTreeMap<(AccountId, LinkId, Date), DayCount>,
    /// Rows of `clicks.account_15min`, without the partition.
    pub account_15min: BTreeMap<(AccountId, OffsetDateTime), KindCount>,
    /// Rows of `clicks.account_days`, without the partition.
    pub account_days: BTreeMap<(AccountId, Date), DayCount>,
}

impl KindCount {
    fn add(&mut self, click: &Click) {
        match click.kind {
            ClickKind::Human => self.clicks += u64::from(click.count),
            ClickKind::Bot => self.bots += u64::from(click.count),
        }
    }
}

impl DayCount {
    fn add(&mut self, click: &Click) {
        self.count.add(click);
        if click.kind == ClickKind::Human {
            self.visitors.extend(click.details.visitor);
        }
    }
}

impl Totals {
    /// Adds a click. Slots that are not kept any more get no row.
    pub(super) fn add(&mut self, click: &Click, today: Date) {
        let (account_id, link_id) = (click.account_id, click.link_id);
        let day = click.clicked_at.to_offset(UtcOffset::UTC).date();
        self.link_days
            .entry((account_id, link_id, day))
            .or_default()
            .add(click);
        self.account_days
            .entry((account_id, day))
            .or_default()
            .add(click);
        if keeps_slots(day, today) {
            let slot = slot_of(click.clicked_at);
            self.link_15min
                .entry((account_id, link_id, slot))
                .or_default()
                .add(click);
            self.account_15min
                .entry((account_id, slot))
                .or_default()
                .add(click);
        }
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.link_15min.len()
            + self.link_days.len()
            + self.account_15min.len()
            + self.account_days.len()
    }
}

/// Returns the begin of the slot of 15 min.
fn slot_of(instant: OffsetDateTime) -> OffsetDateTime {
    let seconds = instant.unix_timestamp();
    let begin = seconds - seconds.rem_euclid(SLOT_SECONDS);
    OffsetDateTime::from_unix_timestamp(begin).expect("near a valid instant")
}
