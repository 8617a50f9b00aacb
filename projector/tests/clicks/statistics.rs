//! All tables of statistics equal a naive count of the clicks.

use std::collections::{BTreeMap, BTreeSet};

use linkledger_clicks::{
    Click, ClickDetails, ClickKind, Device, Dimension,
    dimension_counts::{DimensionCounts, StoredCount},
    sketch::{SketchUnion, VisitorSketch},
};
use linkledger_core::clock::{Clock as _, SystemClock};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use super::click_fixture::{ClickFixture, TestRecorder, click};

/// Counts of a row.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    clicks: i64,
    bots: i64,
    visitors: BTreeSet<u64>,
}

/// Stored counts of a row, with the estimate of the visitors.
pub(crate) type Stored = (i64, i64, u64);

/// Naive count: table and key of the row as text.
type Counts = BTreeMap<String, Count>;

fn add(counts: &mut Counts, key: String, click: &Click) {
    let count = counts.entry(key).or_default();
    match click.kind {
        ClickKind::Human => {
            count.clicks += i64::from(click.count);
            count.visitors.extend(click.details.visitor);
        }
        ClickKind::Bot => count.bots += i64::from(click.count),
    }
}

fn naive(clicks: &[Click]) -> Counts {
    let mut counts = Counts::new();
    for click in clicks {
        let (link, account) = (click.link_id.uuid(), click.account_id.uuid());
        let day = click.clicked_at.date();
        let seconds = click.clicked_at.unix_timestamp();
        let slot = seconds - seconds % 900;
        add(&mut counts, format!("link day {link} {day}"), click);
        add(&mut counts, format!("account day {account} {day}"), click);
        add(&mut counts, format!("link slot {link} {slot}"), click);
        add(&mut counts, format!("account slot {account} {slot}"), click);
        if click.kind == ClickKind::Bot {
            continue;
        }
        for dimension in Dimension::ALL {
            let value = dimension.value_of(&click.details);
            let name = dimension.name();
            add(
                &mut counts,
                format!("link value {link} {day} {name} {value}"),
                click,
            );
            add(
                &mut counts,
                format!("account value {account} {day} {name} {value}"),
                click,
            );
        }
    }
    for (key, count) in &mut counts {
        if key.contains("slot") {
            count.visitors.clear();
        }
    }
    counts
}

/// Reads all tables of statistics; rows of accounts are added up over the partitions.
pub(crate) async fn stored(pool: &PgPool) -> BTreeMap<String, Stored> {
    let rows: Vec<(String, i64, i64, Option<Vec<u8>>)> = sqlx::query_as(
        "
        SELECT format('link day %s %s', link_id, day), clicks, bots, visitors FROM clicks.link_days
        UNION ALL
        SELECT format('account day %s %s', account_id, day), clicks, bots, visitors
        FROM clicks.account_days
        UNION ALL
        SELECT format('link slot %s %s', link_id, extract(epoch FROM slot_start)::bigint),
               clicks, bots, NULL
        FROM clicks.link_15min
        UNION ALL
        SELECT format('account slot %s %s', account_id, extract(epoch FROM slot_start)::bigint),
               clicks, bots, NULL
        FROM clicks.account_15min
        ",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let mut stored: BTreeMap<String, (i64, i64, Vec<VisitorSketch>)> = BTreeMap::new();
    for (key, clicks, bots, visitors) in rows {
        let row = stored.entry(key).or_default();
        row.0 += clicks;
        row.1 += bots;
        let sketch = visitors.map(|bytes| VisitorSketch::from_bytes(&bytes).unwrap());
        row.2.extend(sketch);
    }
    for (key, value, count) in stored_values(pool).await {
        let row = stored.entry(format!("{key} {value}")).or_default();
        row.0 += count.clicks.cast_signed();
        row.2.extend(count.sketch().unwrap());
    }
    let rows = stored.into_iter();
    rows.map(|(key, (clicks, bots, sketches))| {
        let mut visitors = SketchUnion::default();
        for sketch in sketches {
            visitors.add(&sketch);
        }
        let visitors = visitors.to_sketch().estimate();
        (key, (clicks, bots, visitors))
    })
    .collect()
}

/// Reads the tables of values: table, key and dimension as text, value, count.
async fn stored_values(pool: &PgPool) -> Vec<(String, String, StoredCount)> {
    let cells: Vec<(String, Vec<u8>)> = sqlx::query_as(
        "
        WITH rows AS (
            SELECT format('link value %s %s', link_id, day) AS key,
                   country, referrer_host, browser, os, device FROM clicks.link_values
            UNION ALL
            SELECT format('account value %s %s', account_id, day),
                   country, referrer_host, browser, os, device FROM clicks.account_values
        )
        SELECT format('%s %s', key, dimension), counts
        FROM rows, LATERAL (VALUES ('country', country), ('referrer_host', referrer_host),
            ('browser', browser), ('os', os), ('device', device)) AS cell (dimension, counts)
        ",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let mut values = Vec::new();
    for (key, counts) in cells {
        let counts = DimensionCounts::from_bytes(&counts).unwrap();
        let of_key = counts.iter();
        values.extend(of_key.map(|(value, count)| (key.clone(), value.to_owned(), count.clone())));
    }
    values
}

/// Clicks of all values of a table and a dimension.
pub(super) async fn clicks_of_values(pool: &PgPool, table: &str, dimension: Dimension) -> u64 {
    let is_wanted =
        |key: &str| key.starts_with(table) && key.ends_with(&format!(" {}", dimension.name()));
    let values = stored_values(pool).await.into_iter();
    let wanted = values.filter(|(key, ..)| is_wanted(key));
    wanted.map(|(.., count)| count.clicks).sum()
}

/// The counts, with numbers of visitors; estimates of so few visitors are exact.
fn with_numbers(counts: Counts) -> BTreeMap<String, Stored> {
    let counts = counts.into_iter();
    counts
        .map(|(key, it)| (key, (it.clicks, it.bots, it.visitors.len() as u64)))
        .collect()
}

fn any_click(now: OffsetDateTime) -> impl Strategy<Value = Click> {
    let details = (0_u64..6, 0_usize..4, 0_usize..3, any::<bool>());
    (0_u128..20, 0_i64..250_000, any::<bool>(), 1_u32..3, details).prop_map(
        move |(link, seconds_ago, is_bot, count, (visitor, country, host, has_device))| {
            let mut click = click(link, now - Duration::seconds(seconds_ago));
            click.count = count;
            if is_bot {
                click.kind = ClickKind::Bot;
            }
            let host = ["a.example", "b.example"]
                .get(host)
                .map(|it| (*it).to_owned());
            let country = ["DE", "FR", "US"].get(country).map(|it| (*it).to_owned());
            click.details = ClickDetails {
                visitor: (!is_bot).then_some(visitor),
                country,
                referrer_host: host,
                device: has_device.then_some(Device::Mobile),
                ..ClickDetails::default()
            };
            if count > 1 {
                click.details = ClickDetails::default();
            }
            click
        },
    )
}

#[tokio::test]
async fn statistics_of_all_tables_equal_naive_count() {
    let fixture = ClickFixture::embedded().await;
    let mut recorders = [TestRecorder::new(), TestRecorder::new()];
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let now = SystemClock.now();
    let strategy = proptest::collection::vec(any_click(now), 60..120);
    let mut made = Vec::new();
    for round in 0..4 {
        let clicks = strategy.new_tree(&mut runner).unwrap().current();
        let recorder = &mut recorders[round % 2];
        fixture.publish(recorder, &clicks).await;
        made.extend(clicks);
        fixture.count().await;
        assert_eq!(stored(fixture.pool()).await, with_numbers(naive(&made)));
    }
}

#[tokio::test]
async fn values_beyond_first_hundred_are_other() {
    let fixture = ClickFixture::embedded().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let from = |hosts: std::ops::Range<u64>| {
        let clicks = hosts.map(|host| {
            let mut click = click(1, now);
            click.details.referrer_host = Some(format!("{host:03}.example"));
            click.details.visitor = Some(host);
            click
        });
        clicks.collect::<Vec<_>>()
    };
    for hosts in [500..560, 0..60, 540..600] {
        fixture.publish(&mut recorder, &from(hosts)).await;
        fixture.count().await;
    }
    let stored = stored_values(fixture.pool()).await;
    for table in ["link value", "account value"] {
        let is_host = |key: &str| key.starts_with(table) && key.ends_with(" referrer_host");
        let hosts = stored.iter().filter(|(key, ..)| is_host(key));
        let hosts: BTreeMap<&str, &StoredCount> = hosts
            .map(|(_, value, count)| (value.as_str(), count))
            .collect();
        assert_eq!(hosts.len(), 101, "{table}");
        // 20 values of the second batch, and 40 new ones of the third.
        let other = hosts["*"];
        assert_eq!(other.clicks, 60, "{table}");
        assert!(other.sketch().unwrap().is_none(), "{table}");
        assert_eq!(hosts.values().map(|count| count.clicks).sum::<u64>(), 180);
        let clicks = |value: &str| hosts.get(value).map(|count| count.clicks);
        assert_eq!(clicks("550.example"), Some(2), "{table}");
        assert_eq!(clicks("039.example"), Some(1), "{table}");
        assert_eq!(clicks("040.example"), None, "{table}");
    }
}

#[tokio::test]
async fn many_visitors_of_several_batches_are_estimated() {
    let fixture = ClickFixture::embedded().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    for batch in 0..3_u64 {
        let clicks = (0..1_000).map(|index| {
            let mut click = click(1, now);
            // Every visitor clicks twice.
            let visitor = u64::midpoint(batch * 1_000, index);
            click.details.visitor = Some(visitor.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            click
        });
        fixture
            .publish(&mut recorder, &clicks.collect::<Vec<_>>())
            .await;
        fixture.count().await;
    }
    let visitors: Vec<u8> = sqlx::query_scalar("SELECT visitors FROM clicks.link_days")
        .fetch_one(fixture.pool())
        .await
        .unwrap();
    let estimate = VisitorSketch::from_bytes(&visitors).unwrap().estimate();
    assert!(estimate.abs_diff(1_500) <= 15, "{estimate}");
}
