//! The questions, each in a file with its name.

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
mod unknown_slugs;
mod visible;

use clap::Subcommand;

use self::clicks::ClicksOptions;
pub(crate) use self::filter_links::DetailedLinks;
use crate::{answer::QuestionAnswer, bench::BenchContext};

/// A question about the speed of linkledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Question {
    /// Measure how many links can be created per second.
    Creates,
    /// Measure how many links batches can create per second, and how much they disturb single creates.
    Batches,
    /// Measure how much requests for one account disturb each other and other accounts.
    Contention,
    /// Measure how long a create takes at half of the maximum load.
    CreateLatency,
    /// Measure how many redirects are answered per second.
    Redirects,
    /// Measure how many visits to unknown slugs are answered per second, and whom the visits delay.
    UnknownSlugs,
    /// Measure how many links can be read by id per second.
    GetLink,
    /// Measure how many pages of a list can be read per second.
    ListLinks,
    /// Measure how long a page of a filtered list takes.
    FilterLinks,
    /// Measure the time from a create until the list of the account contains the link.
    Visible,
    /// Measure how fast the projector catches up with the log, and how fast a rebuild is.
    CatchUp,
    /// Measure how many clicks are counted per second.
    Clicks(ClicksOptions),
    /// Measure the time from a click until the figures contain the click.
    ClickFreshness,
    /// Measure whether a large log makes creates, lists and redirects slower.
    Growth,
    /// Measure the memory of the services, and the time from start to ready.
    Footprint,
}

impl Question {
    /// All questions, in the order of the command `all`.
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
        Self::Growth,
        Self::Footprint,
    ];

    /// Measures, and returns the answer.
    ///
    /// # Errors
    /// Returns an error if the question can't be answered.
    pub async fn ask(self, bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
        match self {
            Self::Creates => creates::ask(bench).await,
            Self::Batches => batches::ask(bench).await,
            Self::Contention => contention::ask(bench).await,
            Self::CreateLatency => create_latency::ask(bench).await,
            Self::Redirects => redirects::ask(bench).await,
            Self::UnknownSlugs => unknown_slugs::ask(bench).await,
            Self::GetLink => get_link::ask(bench).await,
            Self::ListLinks => list_links::ask(bench).await,
            Self::FilterLinks => filter_links::ask(bench).await,
            Self::Visible => visible::ask(bench).await,
            Self::CatchUp => catch_up::ask(bench).await,
            Self::Clicks(options) => clicks::ask(bench, options).await,
            Self::ClickFreshness => click_freshness::ask(bench).await,
            Self::Growth => growth::ask(bench).await,
            Self::Footprint => footprint::ask(bench).await,
        }
    }
}

#[cfg(test)]
mod tests;
