//! The benchmarks, each in a file with its name.

mod batches;
mod catch_up;
mod click_freshness;
mod clicks;
mod contention;
mod create_latency;
mod creates;
mod filter_links;
mod footprint;
mod get_link;
mod growth;
mod list_links;
mod redirects;
mod subscribers;
mod unknown_slugs;
mod visible;

use clap::Subcommand;

pub(crate) use self::filter_links::DetailedLinks;
use self::{clicks::ClicksOptions, subscribers::SubscribersOptions};
use crate::{bench::BenchContext, report::Report};

/// A benchmark of linkledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Benchmark {
    /// Measure how many links can be created per second, in many accounts and in one.
    Creates,
    /// Measure how many links batches can create per second, and how much they disturb single creates.
    Batches,
    /// Measure how much requests for one account disturb each other and other accounts.
    Contention,
    /// Measure how long a create takes at half of the maximum load.
    CreateLatency,
    /// Measure how many redirects are answered per second, and what a record of their clicks adds.
    Redirects,
    /// Measure how many visits to unknown slugs are answered per second, and whom the visits delay.
    UnknownSlugs,
    /// Measure how many links can be read by id per second.
    GetLink,
    /// Measure how many pages of a list can be read per second, the first page and a late page.
    ListLinks,
    /// Measure how long a page of a filtered list takes.
    FilterLinks,
    /// Measure the time from a create until the list of the account contains the link.
    Visible,
    /// Measure how fast the projector catches up with the log, and how fast a rebuild is.
    CatchUp,
    /// Measure how many clicks are counted per second.
    Clicks(ClicksOptions),
    /// Measure the time from a click until the statistics contain the click.
    ClickFreshness,
    /// Measure the lag of webhooks and of feeds behind the log, and whether a receiver that hangs delays the others.
    Subscribers(SubscribersOptions),
    /// Measure whether a large log makes creates, lists and redirects slower.
    Growth,
    /// Measure the memory of the services, and the time from start to ready.
    Footprint,
}

impl Benchmark {
    /// All benchmarks, in the order of the command `all`.
    pub const ALL: &[Self] = &[
        Self::Creates,
        Self::Batches,
        Self::Contention,
        Self::CreateLatency,
        Self::Redirects,
        Self::UnknownSlugs,
        Self::GetLink,
        Self::ListLinks,
        Self::FilterLinks,
        Self::Visible,
        Self::CatchUp,
        Self::Clicks(ClicksOptions::DEFAULT),
        Self::ClickFreshness,
        Self::Subscribers(SubscribersOptions::DEFAULT),
        Self::Growth,
        Self::Footprint,
    ];

    /// Measures all rounds.
    ///
    /// # Errors
    /// Returns an error if the benchmark fails.
    pub async fn run(self, bench: &BenchContext) -> anyhow::Result<Report> {
        match self {
            Self::Creates => creates::run(bench).await,
            Self::Batches => batches::run(bench).await,
            Self::Contention => contention::run(bench).await,
            Self::CreateLatency => create_latency::run(bench).await,
            Self::Redirects => redirects::run(bench).await,
            Self::UnknownSlugs => unknown_slugs::run(bench).await,
            Self::GetLink => get_link::run(bench).await,
            Self::ListLinks => list_links::run(bench).await,
            Self::FilterLinks => filter_links::run(bench).await,
            Self::Visible => visible::run(bench).await,
            Self::CatchUp => catch_up::run(bench).await,
            Self::Clicks(options) => clicks::run(bench, options).await,
            Self::ClickFreshness => click_freshness::run(bench).await,
            Self::Subscribers(options) => subscribers::run(bench, options).await,
            Self::Growth => growth::run(bench).await,
            Self::Footprint => footprint::run(bench).await,
        }
    }
}

#[cfg(test)]
mod tests;
