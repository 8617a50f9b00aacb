//! How many clicks does the projector count per second, and how soon are they in the figures?

mod counting;
mod freshness;

use clap::{Args, ValueEnum};

use crate::{
    answer::QuestionAnswer,
    bench::BenchContext,
    click_records::{ACCOUNTS, LINKS, VISITORS},
    visits::{EXPONENT, SEED},
};
use counting::CountingRates;
use freshness::Freshness;

/// Options of the question `clicks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct ClicksOptions {
    /// Number of clicks on the topic, all of which are counted in each measurement.
    #[arg(long, default_value_t = Self::DEFAULT.clicks,
          value_parser = clap::value_parser!(u32).range(1_000..))]
    clicks: u32,
    /// Part of the question to measure. Default: both.
    #[arg(long, value_enum)]
    part: Option<ClicksPart>,
}

/// Part of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClicksPart {
    /// Clicks per second of the countings, from a backlog.
    Counting,
    /// Time from a click until the figures contain the click.
    Freshness,
}

impl ClicksOptions {
    /// Options of the command `all`.
    pub const DEFAULT: Self = Self {
        clicks: 600_000,
        part: None,
    };

    fn has(self, part: ClicksPart) -> bool {
        self.part.is_none_or(|only| only == part)
    }
}

pub(super) async fn ask(
    bench: &BenchContext,
    options: ClicksOptions,
) -> anyhow::Result<QuestionAnswer> {
    let (mut rows, mut latencies, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    if options.has(ClicksPart::Counting) {
        let rates = CountingRates::measure(bench, options.clicks).await?;
        rows.extend(rates.rows());
        notes.push(format!(
            "Counted: {} clicks, Zipf distribution over {LINKS} links (exponent {EXPONENT}, seed \
             {SEED}), {ACCOUNTS} accounts, {VISITORS} visitors.",
            options.clicks
        ));
    }
    if options.has(ClicksPart::Freshness) {
        let freshness = Freshness::measure(bench).await?;
        rows.extend(freshness.rows());
        latencies.extend(freshness.curves());
        notes.push(freshness::note());
    }
    Ok(QuestionAnswer {
        question: "clicks",
        title: "Clicks: counting, and time until they are in the figures",
        rows,
        latencies,
        notes,
    })
}
