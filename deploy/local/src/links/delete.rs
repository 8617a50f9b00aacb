//! `linkledger links delete`: deletes a link for ever; a repeated delete succeeds as well.

use clap::Args;
use linkledger_core::id::LinkId;
use reqwest::{Method, StatusCode};

use super::{etag, link_id};
use crate::{
    client::{ApiCall, ApiClient},
    output::note,
};

/// Options of `linkledger links delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteLinkOptions {
    /// Id of the link, lnk_…
    #[arg(value_parser = link_id)]
    id: LinkId,
    /// Delete only if the link still has this etag, which `links get` shows.
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<String>,
}

pub(super) async fn run(client: &ApiClient, delete: &DeleteLinkOptions) -> anyhow::Result<()> {
    let id = delete.id.to_string();
    let call = ApiCall::new(
        Method::DELETE,
        &["v1", "links", &id],
        StatusCode::NO_CONTENT,
    )
    .header("if-match", delete.if_match.clone());
    let answer = client.send(&call).await?;
    note(&format!("deleted {id}"));
    client.settle(&answer).await;
    Ok(())
}
