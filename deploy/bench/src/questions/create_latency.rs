//! How long does a create take at half of the load that can be borne?

use std::time::Duration;

use crate::{
    answer::{Answer, Reach, Row},
    bench::Bench,
    data_set::{self, DataSet},
    load::{self, Outcome, Stall, Target},
    requests,
    rounds::Spread,
    stack::{Broker, Stack},
};

/// So many that an answer which takes long keeps no other request waiting.
const CONNECTIONS: usize = 256;
const WARM_UP: Duration = Duration::from_secs(1);
/// The stack stands still once, in a load of its own.
const STALL: Stall = Stall {
    held: Duration::from_millis(300),
    load: Duration::from_secs(3),
};
const DATABASE: &str = "bench_create_latency";

/// What the rounds have shown.
#[derive(Default)]
struct Rounds {
    maximum: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    all: Outcome,
}

pub(super) async fn ask(bench: &Bench) -> anyhow::Result<Answer> {
    let mut rounds = Rounds::default();
    for _ in bench.rounds("create-latency") {
        rounds.add_round(bench).await?;
    }
    let per_second = Spread::of(&rounds.maximum).median / 2.0;
    let stalled = stalled(bench, per_second).await?;
    let of_half = |what, figures: &[f64], most: Option<f64>| {
        Row::absolute(what, "ms", figures, most.map(Reach::AtMost))
    };
    Ok(Answer {
        question: "create-latency",
        title: "Latency of a create at half load",
        rows: vec![
            of_half("p50", &rounds.p50, Some(5.0)),
            of_half("p99", &rounds.p99, Some(20.0)),
            of_half("p99.9", &rounds.p999, None),
            Row::absolute(
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
    /// The maximum, and half of it right after.
    async fn add_round(&mut self, bench: &Bench) -> anyhow::Result<()> {
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

/// What the load sees when the stack stands still meanwhile.
async fn stalled(bench: &Bench, per_second: f64) -> anyhow::Result<Outcome> {
    let (stack, target) = start(bench).await?;
    let (seen, frozen) = tokio::join!(
        load::open_loop(&target, per_second, STALL.load),
        stack.freeze(STALL.load / 3, STALL.held),
    );
    frozen?;
    stack.stop().await?;
    seen?.all_expected()
}

/// A stack without links, and whom to ask.
async fn start(bench: &Bench) -> anyhow::Result<(Stack, Target)> {
    let url = DataSet::NO_LINKS.copy(&bench.server, DATABASE).await?;
    let accounts = data_set::accounts(&url).await?;
    let stack = Stack::start(bench, &url, Broker::Embedded).await?;
    let target = Target {
        address: stack.api,
        connections: CONNECTIONS,
        requests: requests::creates(&accounts),
        expected_status: 201,
    };
    Ok((stack, target))
}
