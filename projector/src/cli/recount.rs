//! `recount`: counts the clicks of some days again.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    timestamp,
};
use linkledger_event_store::SessionKind;
use linkledger_service::kafka_config::{ClicksConfig, KafkaConfig};
use time::{Date, UtcOffset};

use crate::{
    cli::{OperatorArgs, Options},
    clicks::recount::{CONNECTIONS_MAX, RecountRefusal, RecountScope},
    operations::recount,
    progress::ProgressReport,
};

/// Arguments of `recount`.
#[derive(Debug, Args)]
#[command(mut_arg("clicks", |argument| argument.hide(true)))]
pub struct RecountClicks {
    /// Time, such as 2026-11-01 or 2026-11-01T09:00:00Z: its UTC day and all days after are counted again.
    #[arg(long, value_name = "TIME", value_parser = first_day)]
    from: Date,
    /// Replace the statistics even if clicks become fewer, because the topic lacks records or the statistics had too
    /// many.
    #[arg(long)]
    accept_fewer: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    kafka: KafkaConfig,
    #[command(flatten)]
    clicks: ClicksConfig,
    #[command(flatten)]
    options: Options,
}

/// Parses a time of the past, and returns its UTC day.
fn first_day(text: &str) -> Result<Date, String> {
    let midnight = format!("{text}T00:00:00Z");
    let time = timestamp::parse(text).or_else(|| timestamp::parse(&midnight));
    let time = time.ok_or("a time is wanted, such as 2026-11-01 or 2026-11-01T09:00:00Z")?;
    if time > SystemClock.now() {
        return Err("the time is in the future".to_owned());
    }
    Ok(time.to_offset(UtcOffset::UTC).date())
}

impl RecountClicks {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let kafka = self.clicks.kafka(&self.kafka);
        let kafka = kafka.context("clicks are switched off by --clicks off: nothing is counted")?;
        let options = &self.options;
        let databases = options.databases_of(SessionKind::Writer, CONNECTIONS_MAX);
        let databases = databases.await?;
        let scope = RecountScope {
            from: self.from,
            accepts_fewer: self.accept_fewer,
        };
        let progress = ProgressReport::shown(options.json);
        let report = if self.operator.dry_run {
            let preview = recount::preview(&databases, &kafka, scope, &progress).await;
            preview.map_err(|error| {
                let is_refusal = error.is::<RecountRefusal>();
                error.context(if is_refusal {
                    "the clicks would not be counted again"
                } else {
                    "cannot read what would be counted again"
                })
            })?
        } else {
            let (operator, reason) = (self.operator.operator(), self.operator.reason.as_deref());
            recount::recount(&databases, &kafka, scope, (&operator, reason), &progress).await?
        };
        drop(progress);
        options.print(&report, &report.to_string())
    }
}
