//! How long does a create take at half of the maximum load?

use std::time::Duration;

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    load::{self, LoadOutcome, LoadTarget, Stall},
    requests,
    rounds::Spread,
    stack::{BrokerKind, StackProcess},
};

/// Number of connections: enough that a slow response delays no other request.
const CONNECTIONS: usize = 256;
const WARM_UP: Duration = Duration::from_secs(1);
/// A stall of the stack, in a load of its own.
const STALL: Stall = Stall {
    held: Duration::from_millis(300),
    load: Duration::from_secs(3),
};
const DATABASE: &str = "bench_create_latency";

/// Outcomes of all rounds.
#[derive(Default)]
struct Rounds {
    maximum: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    all: LoadOutcome,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut rounds = Rounds::default();
    for _ in bench.rounds("create-latency") {
        rounds.add_round(bench).await?;
    }
    let per_second = Spread::of(&rounds.maximum).median / 2.0;
    let stalled = stalled(bench, per_second).await?;
    let of_half = |what, figures: &[f64], most: Option<f64>| {
        ReportRow::absolute(what, "ms", figures, most.map(TargetValue::AtMost))
    };
    Ok(QuestionAnswer {
        question: "create-latency",
        title: "Latency of a create at half load",
        rows: vec![
            of_half("p50", &rounds.p50, Some(4.0)),
            of_half("p99", &rounds.p99, Some(20.0)),
            of_half("p99.9", &rounds.p999, None),
            ReportRow::absolute(
                "maximum, of which the load is half",
                "creates/s",
                &rounds.maximum,
                None,
            ),
        ],
        latencies: vec![rounds.all.curve("creates at half load")],
        notes: vec![STALL.shown_by(&stalled, &rounds.all)?],
    })
}

impl Rounds {
    /// Measures the maximum rate, and right afterwards the latencies at half of that rate.
    async fn add_round(&mut self, bench: &BenchContext) -> anyhow::Result<()> {
        let (stack, target) = start(bench).await?;
        let maximum = load::closed_loop(&target, WARM_UP, bench.duration()).await?;
        let maximum = maximum.all_expected()?.per_second();
        stack.until_settled().await?;
        let half = load::open_loop(&target, maximum / 2.0, bench.duration()).await?;
        let half = half.all_expected()?;
        stack.stop().await?;
        self.maximum.push(maximum);
        self.p50.push(half.latency_ms(0.5));
        self.p99.push(half.latency_ms(0.99));
        self.p999.push(half.latency_ms(0.999));
        self.all.add(&half);
        Ok(())
    }
}

/// Measures the latencies while the stack stands still for a time.
async fn stalled(bench: &BenchContext, per_second: f64) -> anyhow::Result<LoadOutcome> {
    let (stack, target) = start(bench).await?;
    let (seen, frozen) = tokio::join!(
        load::open_loop(&target, per_second, STALL.load),
        stack.freeze(STALL.load / 3, STALL.held),
    );
    frozen?;
    stack.stop().await?;
    seen?.all_expected()
}

/// Starts a stack without links, and returns the target of the load.
async fn start(bench: &BenchContext) -> anyhow::Result<(StackProcess, LoadTarget)> {
    let url = DataSet::NO_LINKS.copy(&bench.server, DATABASE).await?;
    let accounts = data_set::accounts(&url).await?;
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    let target = LoadTarget {
        address: stack.api,
        connections: CONNECTIONS,
        requests: requests::creates(&accounts),
        expected_status: 201,
    };
    Ok((stack, target))
}
