//! Rows of slots of 15 min, of days and of minutes.

use std::collections::BTreeMap;

use time::{Date, OffsetDateTime, UtcOffset};

use super::retention::keeps_slots;
use crate::{Click, ClickKind};
use linkledger_core::id::{AccountId, LinkId};

const SLOT_SECONDS: i64 = 15 * 60;
const MINUTE_SECONDS: i64 = 60;

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
    /// Instant of the earliest click of a human.
    pub first_clicked_at: Option<OffsetDateTime>,
}

/// Rows of slots, days and minutes, each table in the order of its key.
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
    /// Rows of `clicks.link_minutes`, also of accounts whose minutes nobody wants.
    pub link_minutes: BTreeMap<(OffsetDateTime, AccountId, LinkId), KindCount>,
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
            let first = self.first_clicked_at.get_or_insert(click.clicked_at);
            *first = click.clicked_at.min(*first);
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
            let slot = begin_of(click.clicked_at, SLOT_SECONDS);
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

    /// Adds a click to the row of its minute.
    pub(super) fn add_minute(&mut self, click: &Click) {
        let minute = begin_of(click.clicked_at, MINUTE_SECONDS);
        self.link_minutes
            .entry((minute, click.account_id, click.link_id))
            .or_default()
            .add(click);
    }

    /// Returns the number of rows, without those of minutes: few accounts want them.
    pub(super) fn rows(&self) -> usize {
        self.link_15min.len()
            + self.link_days.len()
            + self.account_15min.len()
            + self.account_days.len()
    }
}

/// Returns the begin of the UTC slot with this length.
fn begin_of(instant: OffsetDateTime, slot_seconds: i64) -> OffsetDateTime {
    let seconds = instant.unix_timestamp();
    let begin = seconds - seconds.rem_euclid(slot_seconds);
    OffsetDateTime::from_unix_timestamp(begin).expect("near a valid instant")
}
