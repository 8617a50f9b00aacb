//! `linkledger links get`: shows one link, found by its id.

use clap::Args;
use linkledger_core::id::LinkId;

use super::{link_id, print_link};
use crate::client::{ApiCall, ApiClient};

/// Options of `linkledger links get`.
#[derive(Debug, Args)]
pub(crate) struct GetLinkOptions {
    /// Id of the link, lnk_…
    #[arg(value_parser = link_id)]
    id: LinkId,
}

pub(super) async fn run(
    client: &ApiClient,
    get: &GetLinkOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let call = ApiCall::get(&["v1", "links", &get.id.to_string()]);
    let answer = client.send(&call).await?;
    print_link(client, &call, &answer, is_json)
}
