//! The questions, each in the file of its name.

mod catch_up;
mod create_latency;
mod creates;
mod footprint;
mod get_link;
mod growth;
mod list_links;
mod redirects;
mod visible;

use clap::Subcommand;

use crate::{answer::Answer, bench::Bench};

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Question {
    /// How many links can be created in a second?
    Creates,
    /// How long does a create take at half load?
    CreateLatency,
    /// How many visitors can follow links in a second?
    Redirects,
    /// How often can a link be read by its id in a second?
    GetLink,
    /// How often can a page of a list be read in a second?
    ListLinks,
    /// How long after its create is a link in the list of its account?
    Visible,
    /// How fast does the projector catch up, and how fast is a rebuild?
    CatchUp,
    /// Does it slow down while the log grows?
    Growth,
    /// How much memory do the services take, and how soon are they ready?
    Footprint,
}

impl Question {
    /// All of them, in the order in which `all` asks them.
    pub const ALL: &[Self] = &[
        Self::Creates,
        Self::CreateLatency,
        Self::Redirects,
        Self::GetLink,
        Self::ListLinks,
        Self::Visible,
        Self::CatchUp,
        Self::Growth,
        Self::Footprint,
    ];

    /// Measures.
    ///
    /// # Errors
    /// Why it can't be answered.
    pub async fn ask(self, bench: &Bench) -> anyhow::Result<Answer> {
        match self {
            Self::Creates => creates::ask(bench).await,
            Self::CreateLatency => create_latency::ask(bench).await,
            Self::Redirects => redirects::ask(bench).await,
            Self::GetLink => get_link::ask(bench).await,
            Self::ListLinks => list_links::ask(bench).await,
            Self::Visible => visible::ask(bench).await,
            Self::CatchUp => catch_up::ask(bench).await,
            Self::Growth => growth::ask(bench).await,
            Self::Footprint => footprint::ask(bench).await,
        }
    }
}

#[cfg(test)]
mod tests;
