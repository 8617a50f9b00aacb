//! `linkledger links delete`: deletes a link for ever; a repeated delete succeeds as well.

use clap::Args;
use linkledger_core::link::LinkName;
use reqwest::{Method, StatusCode};

use super::{etag, find_link};
use crate::{
    client::{ApiCall, ApiClient},
    output::note,
};

/// Options of `linkledger links delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteLinkOptions {
    /// Id (lnk_…), slug or short address of the link.
    link: LinkName,
    /// Delete only if the link still has this etag, which `links get` shows.
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<String>,
}

pub(super) async fn run(client: &ApiClient, delete: &DeleteLinkOptions) -> anyhow::Result<()> {
    let id = find_link(client, &delete.link).await?.to_string();
    let call = ApiCall::new(
        Method::DELETE,
        &["v1", "links", &id],
        StatusCode::NO_CONTENT,
    )
    .header("if-match", delete.if_match.clone());
    let answer = client.send(&call).await?;
    note(&format!("deleted {id}"));
    client.settle(answer.token()).await;
    Ok(())
}
