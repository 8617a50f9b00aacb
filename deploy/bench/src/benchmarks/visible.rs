//! Benchmark of visibility: time from a create until the list of the account contains the link.

use tokio::time::sleep;

use crate::{
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    load::{FollowedCreates, LoadOutcome, POLL_INTERVAL, Visibility, WARM_UP},
    report::Report,
    requests,
    stack::BrokerKind,
};

const CONNECTIONS: usize = 64;
/// Number of creates that are followed per second.
const FOLLOWED_PER_SECOND: f64 = 50.0;
/// Size of a list: more links than an account creates during the wait for one of its links.
const LIST_LIMIT: usize = 20;
/// Brokers, with the goals of p50 and p99 from the answer, in ms.
const BROKERS: [(BrokerKind, &str, [f64; 2]); 2] = [
    (BrokerKind::Embedded, "embedded broker", [15.0, 50.0]),
    (BrokerKind::Apache, "Apache Kafka", [20.0, 60.0]),
];

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    let mut all = BROKERS.map(|_| Visibility::default());
    for _ in bench.rounds("visible") {
        for ((broker, name, _), all) in BROKERS.into_iter().zip(&mut all) {
            let (half, seen) = round(bench, broker).await?;
            let [load, p50, p99] = names(name);
            figures.add(&load, half);
            figures.add(&p50, seen.waits.latency_ms(0.5));
            figures.add(&p99, seen.waits.latency_ms(0.99));
            all.add(&seen);
        }
    }
    let rows = BROKERS.into_iter().flat_map(|(_, name, goals_ms)| {
        let [load, p50, p99] = names(name);
        [
            figures.row(&load, "creates/s"),
            figures.row(&p50, "ms").at_most(goals_ms[0]),
            figures.row(&p99, "ms").at_most(goals_ms[1]),
        ]
    });
    let title = "Create to visible in the list, at half of the maximum load";
    let mut report = Report::new("visible", title, rows);
    let mut lists = LoadOutcome::default();
    for ((_, name, _), seen) in BROKERS.iter().zip(&all) {
        report.latencies.push(seen.waits.curve(*name));
        lists.add(&seen.lists);
        lists.seconds += bench.duration().as_secs_f64() * f64::from(bench.options.rounds);
    }
    Ok(report.note(format!(
        "Visible: {FOLLOWED_PER_SECOND} creates a second are followed by {:.0} lists, of which one \
         takes {:.1} ms (p50): figures are too high by that, and by up to {} ms or a tenth.",
        lists.per_second(),
        lists.latency_ms(0.5),
        POLL_INTERVAL.as_millis(),
    )))
}

fn names(broker: &str) -> [String; 3] {
    ["load", "p50 from the answer", "p99 from the answer"].map(|what| format!("{broker}: {what}"))
}

/// Returns half of the maximum rate, and what was seen at that rate.
async fn round(bench: &BenchContext, broker: BrokerKind) -> anyhow::Result<(f64, Visibility)> {
    let stage = bench.stage(DataSet::NO_LINKS, broker).await?;
    let (stack, accounts) = (stage.stack, stage.accounts);
    let target = requests::creates(&accounts).to(stack.api, CONNECTIONS);
    let half = target.maximum(bench.duration()).await?.per_second() / 2.0;
    stack.until_settled().await?;
    let others = (half - FOLLOWED_PER_SECOND).max(1.0);
    let others = target.open_loop(others, WARM_UP + bench.duration());
    let followed = FollowedCreates {
        address: stack.api,
        creates: requests::creates_in_step(&accounts),
        lists: requests::lists(&accounts, LIST_LIMIT),
    };
    let followed = async {
        sleep(WARM_UP).await;
        followed.follow(FOLLOWED_PER_SECOND, bench.duration()).await
    };
    let (_, seen) = tokio::try_join!(others, followed)?;
    stack.stop().await?;
    Ok((half, seen))
}
