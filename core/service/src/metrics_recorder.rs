//! The metrics recorder of a process, and the text of `/metrics`.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use metrics::{describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::Tasks;
use crate::metrics::{ALL, BUILD_INFO, MetricKind};

/// Upper bounds of the histograms, which are all of durations, in seconds.
const SECONDS_BUCKETS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Interval at which samples are moved into buckets, in case nobody scrapes the
/// metrics.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// One recorder for the whole process, because the recording macros are global.
static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Recorded metrics of the process.
#[derive(Clone)]
pub struct MetricsRecorder(PrometheusHandle);

impl MetricsRecorder {
    /// Starts recording. Services that share a process share its recorder.
    ///
    /// # Errors
    /// Returns an error if another recorder is installed.
    pub fn install(tasks: &mut Tasks) -> anyhow::Result<Self> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = match &*installed {
            Some(handle) => handle.clone(),
            None => installed.insert(install()?).clone(),
        };
        let recorded = handle.clone();
        tasks.spawn_housekeeping("metrics upkeep", move |shutdown| {
            keep_up(recorded.clone(), shutdown)
        });
        Ok(Self(handle))
    }

    /// Returns the metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        Collector::default().collect();
        self.0.render()
    }
}

async fn keep_up(recorded: PrometheusHandle, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut is_due = interval(UPKEEP_INTERVAL);
    while !shutdown.is_cancelled() {
        tokio::select! {
            _ = is_due.tick() => recorded.run_upkeep(),
            () = shutdown.cancelled() => {}
        }
    }
    Ok(())
}

fn install() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets(&SECONDS_BUCKETS)
        .and_then(PrometheusBuilder::install_recorder)
        .context("cannot install the metrics")?;
    for metric in ALL.iter().flat_map(|(_, metrics)| *metrics) {
        match metric.kind {
            MetricKind::Counter => describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => describe_histogram!(metric.name, metric.help),
        }
    }
    Collector::default().describe();
    gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1);
    Ok(handle)
}
