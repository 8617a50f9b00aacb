//! Made-up clicks of a day: fewer at night and at weekends, a few links with most clicks, some bots.
//!
//! Pure. The clicks depend on seed and day only, in the order of their instants: those up to an instant are the
//! first ones of those up to a later instant.

use linkledger_clicks::{Click, ClickDetails, ClickKind, Device};
use linkledger_core::id::{AccountId, LinkId};
use time::{Date, OffsetDateTime, Weekday};

/// Clicks of a working day.
const CLICKS_OF_DAY: u64 = 8_000;
/// Clicks of a day at the weekend.
const CLICKS_OF_WEEKEND: u64 = 5_000;
/// Visitors of a day.
const VISITORS: u64 = 4_000;
/// Share of bots among the clicks, in percent.
const BOTS_PERCENT: u64 = 15;
/// Exponent of the law by which clicks decrease from link to link.
const ZIPF_EXPONENT: f64 = 0.9;
const MILLISECONDS_OF_HOUR: u64 = 3_600_000;

/// Weights of the hours of a day, in UTC.
const HOURS: [u64; 24] = [
    8, 6, 5, 4, 5, 9, 18, 32, 48, 58, 62, 64, 60, 62, 66, 68, 66, 62, 58, 54, 46, 36, 24, 14,
];
/// Weights of countries.
const COUNTRIES: [(&str, u64); 10] = [
    ("DE", 30),
    ("US", 18),
    ("FR", 10),
    ("GB", 9),
    ("AT", 8),
    ("CH", 7),
    ("NL", 6),
    ("PL", 5),
    ("IN", 4),
    ("BR", 3),
];
/// Weights of hosts of referrers; the empty one is none.
const REFERRERS: [(&str, u64); 7] = [
    ("", 42),
    ("search.example", 22),
    ("social.example", 14),
    ("news.example", 9),
    ("mail.example", 7),
    ("forum.example", 4),
    ("blog.example", 2),
];
/// Weights of browsers with their systems and devices.
const AGENTS: [((&str, &str, Device), u64); 8] = [
    (("Chrome", "Android", Device::Mobile), 28),
    (("Safari", "iOS", Device::Mobile), 24),
    (("Chrome", "Windows", Device::Desktop), 20),
    (("Firefox", "Windows", Device::Desktop), 8),
    (("Safari", "macOS", Device::Desktop), 8),
    (("Edge", "Windows", Device::Desktop), 6),
    (("Firefox", "Linux", Device::Desktop), 3),
    (("Safari", "iOS", Device::Tablet), 3),
];

/// A made-up click.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MadeUpClick {
    /// Number of the link.
    pub(super) link: usize,
    clicked_at: OffsetDateTime,
    kind: ClickKind,
    details: ClickDetails,
}

/// Clicks of a day.
#[derive(Debug)]
pub(super) struct DayClicks(Vec<MadeUpClick>);

/// Numbers without pattern from a seed (splitmix, by Steele, Lea and Flood): the same ones in every release.
struct Numbers(u64);

impl MadeUpClick {
    /// Returns the click of a link.
    pub(super) fn click(self, account_id: AccountId, link_id: LinkId, slug: String) -> Click {
        Click {
            link_id,
            account_id,
            slug,
            clicked_at: self.clicked_at,
            kind: self.kind,
            count: 1,
            details: self.details,
        }
    }
}

impl DayClicks {
    /// Makes the clicks of a day on so many links.
    pub(super) fn new(seed: u64, day: Date, links: usize) -> Self {
        let mut numbers = Numbers(seed);
        let is_weekend = matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday);
        let count = if is_weekend {
            CLICKS_OF_WEEKEND
        } else {
            CLICKS_OF_DAY
        };
        let links = zipf(links);
        let mut clicks: Vec<_> = (0..count).map(|_| numbers.click(day, &links)).collect();
        clicks.sort_by_key(|click| click.clicked_at);
        Self(clicks)
    }

    /// Returns the clicks up to an instant, in the order of their instants.
    pub(super) fn up_to(self, now: OffsetDateTime) -> Vec<MadeUpClick> {
        let Self(mut clicks) = self;
        clicks.truncate(clicks.partition_point(|click| click.clicked_at <= now));
        clicks
    }
}

/// Returns weights that decrease by the law of Zipf.
fn zipf(links: usize) -> Vec<(usize, u64)> {
    let weight = |rank: usize| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "small positive numbers"
        )]
        let weight = (100_000.0 / (rank as f64 + 1.0).powf(ZIPF_EXPONENT)) as u64;
        (rank, weight)
    };
    (0..links).map(weight).collect()
}

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns one of the values, by their weights.
    fn choose<T: Copy>(&mut self, weighted: &[(T, u64)]) -> T {
        let total = weighted.iter().map(|(_, weight)| weight).sum();
        let mut rest = self.below(total);
        for (value, weight) in weighted {
            if rest < *weight {
                return *value;
            }
            rest -= weight;
        }
        weighted[0].0
    }

    /// Returns the details of a human click. Address and user agent make the visitor, so a visitor of a day has one
    /// country, browser, system and device.
    fn details_of_visitor(&mut self, day: Date) -> ClickDetails {
        let referrer = self.choose(&REFERRERS);
        let number = self.below(VISITORS);
        let mut of_visitor =
            Self(number + u64::from(day.to_julian_day().unsigned_abs()) * VISITORS);
        let visitor = of_visitor.next();
        let country = of_visitor.choose(&COUNTRIES);
        let (browser, os, device) = of_visitor.choose(&AGENTS);
        ClickDetails {
            visitor: Some(visitor),
            country: Some(country.to_owned()),
            referrer_host: (!referrer.is_empty()).then(|| referrer.to_owned()),
            browser: Some(browser.to_owned()),
            os: Some(os.to_owned()),
            device: Some(device),
        }
    }

    fn click(&mut self, day: Date, links: &[(usize, u64)]) -> MadeUpClick {
        let hours: [(u64, u64); 24] = std::array::from_fn(|hour| (hour as u64, HOURS[hour]));
        let hour = self.choose(&hours);
        let millisecond = hour * MILLISECONDS_OF_HOUR + self.below(MILLISECONDS_OF_HOUR);
        let after_midnight = std::time::Duration::from_millis(millisecond);
        let is_bot = self.below(100) < BOTS_PERCENT;
        let details = if is_bot {
            ClickDetails {
                country: Some(self.choose(&COUNTRIES).to_owned()),
                ..ClickDetails::default()
            }
        } else {
            self.details_of_visitor(day)
        };
        MadeUpClick {
            link: self.choose(links),
            clicked_at: day.midnight().assume_utc() + after_midnight,
            kind: if is_bot {
                ClickKind::Bot
            } else {
                ClickKind::Human
            },
            details,
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::{date, datetime};

    use super::*;

    const DAY: Date = date!(2026 - 11 - 23);

    #[test]
    fn later_run_begins_with_the_clicks_of_an_earlier_one() {
        let clicks = || DayClicks::new(7, DAY, 300);
        let early = clicks().up_to(datetime!(2026-11-23 09:51 UTC));
        let late = clicks().up_to(datetime!(2026-11-23 17:00 UTC));
        assert!(early.len() > 1_000 && early.len() < late.len());
        assert_eq!(early[..], late[..early.len()]);
        assert!(clicks().up_to(datetime!(2026-11-22 23:59 UTC)).is_empty());
    }

    #[test]
    fn visitor_of_a_day_has_one_country_and_agent() {
        let DayClicks(clicks) = DayClicks::new(7, DAY, 300);
        let mut seen = std::collections::HashMap::new();
        let human = clicks
            .iter()
            .filter(|click| click.details.visitor.is_some());
        for click in human {
            let details = ClickDetails {
                referrer_host: None,
                ..click.details.clone()
            };
            let first = seen
                .entry(details.visitor)
                .or_insert_with(|| details.clone());
            assert_eq!(*first, details);
        }
    }

    #[test]
    fn clicks_are_few_at_night_and_mostly_of_few_links() {
        let DayClicks(clicks) = DayClicks::new(7, DAY, 300);
        let of = |is_counted: &dyn Fn(&MadeUpClick) -> bool| {
            clicks.iter().filter(|click| is_counted(click)).count()
        };
        let [night, noon] = [3, 12].map(|hour| of(&|click| click.clicked_at.hour() == hour));
        assert!(noon > 5 * night, "{night} {noon}");
        let first = of(&|click| click.link < 30);
        assert!(first > clicks.len() / 2, "{first}");
        let bots = of(&|click| click.kind == ClickKind::Bot);
        assert!((1_000..1_400).contains(&bots), "{bots}");
    }
}
