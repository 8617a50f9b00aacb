//! Exports spans to a collector, in batches, from a bounded queue and a separate thread. Without a
//! reachable collector, spans are dropped; requests are not affected.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider},
};
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    registry::LookupSpan,
};

/// Timeout of the collector for a batch.
const EXPORT_TIME_MAX: Duration = Duration::from_secs(3);

/// Sends from the exporter's thread, which has no runtime, on the runtime of the process.
#[derive(Debug)]
struct Client {
    client: HyperClient,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self
            .runtime
            .spawn(async move { client.send_bytes(request).await });
        sent.await?
    }
}

/// Checks the address of a collector.
pub(super) fn check(endpoint: &str) -> anyhow::Result<()> {
    ensure!(
        endpoint.starts_with("http://"),
        "cannot send traces to {endpoint}: the address must begin with http://"
    );
    Ok(())
}

/// Creates the spans of `service` and sends them to the collector.
pub(super) fn provider(service: &'static str, endpoint: &str) -> anyhow::Result<SdkTracerProvider> {
    check(endpoint)?;
    let client = Client {
        client: HyperClient::with_default_connector(EXPORT_TIME_MAX, None),
        runtime: Handle::current(),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(EXPORT_TIME_MAX)
        .build()
        .with_context(|| format!("cannot send traces to {endpoint}"))?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        // Every request is recorded, whatever the `traceparent` of the caller asks for.
        .with_sampler(Sampler::AlwaysOn)
        .with_resource(Resource::builder().with_service_name(service).build())
        .build())
}

/// Returns the layer that exports linkledger's own spans, without those of libraries.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let own = Targets::new().with_target("linkledger", LevelFilter::INFO);
    let layer: OpenTelemetryLayer<S, SdkTracer> =
        OpenTelemetryLayer::new(provider.tracer("linkledger"));
    layer
        .with_location(false)
        .with_threads(false)
        .with_filter(own)
}
