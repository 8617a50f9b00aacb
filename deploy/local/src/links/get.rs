//! `linkledger links get`: shows one link, found by its id, slug or short address.

use clap::Args;
use linkledger_core::link::LinkName;

use super::{find_link, print_link};
use crate::client::{ApiCall, ApiClient};

/// Options of `linkledger links get`.
#[derive(Debug, Args)]
pub(crate) struct GetLinkOptions {
    /// Id (lnk_…), slug or short address of the link.
    link: LinkName,
    /// Show the link as it was at this instant; a date begins in UTC. A deleted link is named by its id.
    #[arg(long, value_name = "INSTANT|DATE")]
    at: Option<String>,
}

pub(super) async fn run(
    client: &ApiClient,
    get: &GetLinkOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let id = find_link(client, &get.link).await?.to_string();
    let call = ApiCall::get(&["v1", "links", &id]).query("at", get.at.clone());
    let answer = client.send(&call).await?;
    print_link(client, &call, &answer, is_json)
}
