//! `linkledger links get`: one link by its id.

use clap::Args;
use linkledger_core::id::LinkId;

use super::{link_id, print_link};
use crate::client::{Call, Client};

/// Which link.
#[derive(Debug, Args)]
pub(crate) struct GetLink {
    /// The link's id, lnk_…
    #[arg(value_parser = link_id)]
    id: LinkId,
}

pub(super) async fn run(client: &Client, get: &GetLink, is_json: bool) -> anyhow::Result<()> {
    let call = Call::get(&["v1", "links", &get.id.to_string()]);
    let answer = client.send(&call).await?;
    print_link(client, &call, &answer, is_json)
}
