//! How long does a create take at half of the maximum load?

use std::time::Duration;

use linkledger_service::metrics::{
    APPEND_COMMIT_SECONDS, APPEND_LOAD_SECONDS, APPEND_LOCK_HOLD_SECONDS, APPEND_LOCK_WAIT_SECONDS,
    COMMAND_WAIT_SECONDS, HTTP_REQUEST_DURATION_SECONDS,
};

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    load::{self, LoadOutcome, LoadTarget, Stall},
    metrics, requests,
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
/// Stages of a create, in their order in [`stages_ms`].
const STAGES: [&str; 6] = [
    "HTTP, API key and the wait for a thread",
    "wait in the queue",
    "BEGIN and lock of the accounts",
    "look-ups and reservation of slugs",
    "decision and append",
    "COMMIT",
];

/// Outcomes of all rounds.
#[derive(Default)]
struct Rounds {
    maximum: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    /// Mean of each stage, a list for each of [`STAGES`].
    stages: [Vec<f64>; STAGES.len()],
    all: LoadOutcome,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut rounds = Rounds::default();
    for _ in bench.rounds("create-latency") {
        rounds.add_round(bench).await?;
    }
    let per_second = Spread::of(&rounds.maximum).median / 2.0;
    let stalled = stalled(bench, per_second).await?;
    let of_half = |what: &str, figures: &[f64], most: Option<f64>| {
        ReportRow::absolute(what, "ms", figures, most.map(TargetValue::AtMost))
    };
    let mut rows = vec![
        of_half("p50", &rounds.p50, Some(4.0)),
        of_half("p99", &rounds.p99, Some(20.0)),
        of_half("p99.9", &rounds.p999, None),
        ReportRow::absolute(
            "maximum, of which the load is half",
            "creates/s",
            &rounds.maximum,
            None,
        ),
    ];
    let stages = STAGES.iter().zip(&rounds.stages);
    rows.extend(stages.map(|(stage, ms)| of_half(&format!("mean: {stage}"), ms, None)));
    Ok(QuestionAnswer {
        question: "create-latency",
        title: "Latency of a create at half load",
        rows,
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
        let before = stack.metrics("COMMAND_METRICS_URL").await?;
        let half = load::open_loop(&target, maximum / 2.0, bench.duration()).await?;
        let half = half.all_expected()?;
        let after = stack.metrics("COMMAND_METRICS_URL").await?;
        stack.stop().await?;
        self.maximum.push(maximum);
        self.p50.push(half.latency_ms(0.5));
        self.p99.push(half.latency_ms(0.99));
        self.p999.push(half.latency_ms(0.999));
        for (means, mean) in self.stages.iter_mut().zip(stages_ms(&before, &after)) {
            means.push(mean);
        }
        self.all.add(&half);
        Ok(())
    }
}

/// Computes the mean of each of [`STAGES`] between two scrapes, in milliseconds. A stage of a batch
/// counts once, however many creates the batch has.
fn stages_ms(before: &str, after: &str) -> [f64; STAGES.len()] {
    let mean = |name: &str, labels: &[&str]| {
        let increase = |suffix: &str| {
            let name = format!("{name}{suffix}");
            metrics::sum(after, &name, labels) - metrics::sum(before, &name, labels)
        };
        1_000.0 * increase("_sum") / increase("_count")
    };
    let http = mean(HTTP_REQUEST_DURATION_SECONDS, &["\"POST\"", "\"201\""]);
    let queue = mean(COMMAND_WAIT_SECONDS, &[]);
    let lock = mean(APPEND_LOCK_WAIT_SECONDS, &[]);
    let load = mean(APPEND_LOAD_SECONDS, &[]);
    let locked = mean(APPEND_LOCK_HOLD_SECONDS, &[]);
    let commit = mean(APPEND_COMMIT_SECONDS, &[]);
    let append = locked - load - commit;
    [
        http - queue - lock - locked,
        queue,
        lock,
        load,
        append,
        commit,
    ]
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

#[cfg(test)]
mod tests {
    use super::{STAGES, stages_ms};

    #[test]
    fn stages_add_up_to_the_request() {
        let scrape = |count: f64, seconds: [f64; 6]| {
            let [http, queue, lock, load, locked, commit] = seconds;
            [
                (
                    "http_request_duration",
                    "{method=\"POST\",status=\"201\"}",
                    http,
                ),
                ("command_wait", "", queue),
                ("append_lock_wait", "", lock),
                ("append_load", "", load),
                ("append_lock_hold", "", locked),
                ("append_commit", "", commit),
            ]
            .map(|(name, labels, sum)| {
                let name = format!("linkledger_{name}_seconds");
                format!("{name}_sum{labels} {sum}\n{name}_count{labels} {count}\n")
            })
            .concat()
        };
        let before = scrape(10.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let after = scrape(12.0, [1.040, 2.012, 3.002, 4.004, 5.020, 6.006]);
        let expected = [3.0, 6.0, 1.0, 2.0, 5.0, 3.0];
        for ((stage, ms), expected) in STAGES.iter().zip(stages_ms(&before, &after)).zip(expected) {
            assert!((ms - expected).abs() < 1e-6, "{stage}: {ms}");
        }
    }
}
