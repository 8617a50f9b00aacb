//! Stands in for the exporter of spans in builds without the feature `production`: refuses the
//! address of a collector.

use std::{convert::Infallible, time::Duration};

use anyhow::bail;
use tracing::Subscriber;
use tracing_subscriber::{Layer, layer::Identity};

/// Provider of tracers, which no build without the feature `production` has.
#[derive(Debug)]
pub(super) enum Provider {}

/// Returns an error: this build sends no traces.
pub(super) fn check(endpoint: &str) -> anyhow::Result<()> {
    bail!("this build can't send traces to {endpoint}: build with --features production")
}

/// Returns an error: this build sends no traces.
pub(super) fn provider(_service: &'static str, endpoint: &str) -> anyhow::Result<Provider> {
    check(endpoint)?;
    unreachable!("every address is refused")
}

/// Sends the spans that are left, and ends the provider.
pub(super) fn shut_down(provider: &Provider, _time_max: Duration) -> Result<(), Infallible> {
    match *provider {}
}

/// Hands spans over to the collector.
pub(super) fn layer<S: Subscriber>(provider: &Provider) -> impl Layer<S> + use<S> {
    match *provider {}
    #[expect(unreachable_code, reason = "names the type")]
    Identity::new()
}
