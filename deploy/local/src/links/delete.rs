//! `linkledger links delete`: for ever, and the same again when repeated.

use clap::Args;
use linkledger_core::id::LinkId;
use reqwest::{Method, StatusCode};

use super::{etag, link_id};
use crate::{
    client::{Call, Client},
    output::note,
};

/// Which link.
#[derive(Debug, Args)]
pub(crate) struct DeleteLink {
    /// The link's id, lnk_…
    #[arg(value_parser = link_id)]
    id: LinkId,
    /// Only if the link is still in this version, which `links get` shows.
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<String>,
}

pub(super) async fn run(client: &Client, delete: &DeleteLink) -> anyhow::Result<()> {
    let id = delete.id.to_string();
    let call = Call::new(
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
