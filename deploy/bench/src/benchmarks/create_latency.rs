//! Benchmark of the latency of a create at half of the maximum load.

use linkledger_service::metrics::{
    APPEND_COMMIT_SECONDS, APPEND_LOAD_SECONDS, APPEND_LOCK_HOLD_SECONDS, APPEND_LOCK_WAIT_SECONDS,
    COMMAND_WAIT_SECONDS, HTTP_REQUEST_DURATION_SECONDS,
};

use crate::{
    bench::BenchContext, data_set::DataSet, figures::Figures, load::LoadOutcome, metrics,
    report::Report, requests, stack::BrokerKind,
};

/// Number of connections: enough that a slow response delays no other request.
const CONNECTIONS: usize = 256;
/// Stages of a create, in their order in [`stages_ms`].
const STAGES: [&str; 6] = [
    "mean: HTTP, API key and the wait for a thread",
    "mean: wait in the queue",
    "mean: BEGIN and lock of the accounts",
    "mean: look-ups and reservation of slugs",
    "mean: decision and append",
    "mean: COMMIT",
];
const MAXIMUM: &str = "maximum, of which the load is half";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    let mut all = LoadOutcome::default();
    for _ in bench.rounds("create-latency") {
        all.add(&add_round(bench, &mut figures).await?);
    }
    let mut rows = vec![
        figures.row("p50", "ms").at_most(4.0),
        figures.row("p99", "ms").at_most(20.0),
        figures.row(MAXIMUM, "creates/s"),
    ];
    rows.extend(STAGES.map(|stage| figures.row(stage, "ms")));
    let mut report = Report::new("create-latency", "Latency of a create at half load", rows);
    report.latencies = vec![all.curve("creates at half load")];
    Ok(report)
}

/// Measures the maximum rate, and right afterwards the latencies at half of that rate.
async fn add_round(bench: &BenchContext, figures: &mut Figures) -> anyhow::Result<LoadOutcome> {
    let stage = bench.stage(DataSet::NO_LINKS, BrokerKind::Embedded).await?;
    let stack = stage.stack;
    let target = requests::creates(&stage.accounts).to(stack.api, CONNECTIONS);
    let maximum = target.maximum(bench.duration()).await?.per_second();
    stack.until_settled().await?;
    let before = stack.metrics("COMMAND_METRICS_URL").await?;
    let half = target.open_loop(maximum / 2.0, bench.duration()).await?;
    let after = stack.metrics("COMMAND_METRICS_URL").await?;
    stack.stop().await?;
    figures.add(MAXIMUM, maximum);
    figures.add("p50", half.latency_ms(0.5));
    figures.add("p99", half.latency_ms(0.99));
    for (stage, mean) in STAGES.iter().zip(stages_ms(&before, &after)) {
        figures.add(stage, mean);
    }
    Ok(half)
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
