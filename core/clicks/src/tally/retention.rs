//! Days of which the tables of statistics have partitions: the same rules as the function `clicks.statistics_tables()`.

use time::{Date, Duration, Month};

use crate::{buckets::SLOTS_KEPT_DAYS, top::VALUES_KEPT_DAYS};

/// Returns true if the tables of slots, whose partitions are weeks, keep the day.
pub(super) fn keeps_slots(day: Date, today: Date) -> bool {
    let monday = Duration::days(day.weekday().number_days_from_monday().into());
    day - monday + Duration::days(7) > today - Duration::days(SLOTS_KEPT_DAYS)
}

/// Returns true if the tables of values, whose partitions are months, keep the day.
pub(super) fn keeps_values(day: Date, today: Date) -> bool {
    let (year, month) = (day.year(), day.month());
    let year_after = if month == Month::December {
        year + 1
    } else {
        year
    };
    Date::from_calendar_date(year_after, month.next(), 1)
        .is_ok_and(|month_end| month_end > today - Duration::days(VALUES_KEPT_DAYS))
}
