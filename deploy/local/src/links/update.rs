//! `linkledger links update`: another destination for a link.

use clap::Args;
use linkledger_core::id::LinkId;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{etag, link_id, print_link};
use crate::client::{Call, Client};

/// Which link, and where it shall lead.
#[derive(Debug, Args)]
pub(crate) struct UpdateLink {
    /// The link's id, lnk_…
    #[arg(value_parser = link_id)]
    id: LinkId,
    /// Where the link shall lead.
    #[arg(long, value_name = "URL")]
    destination_url: String,
    /// Only if the link is still in this version, which `links get` shows.
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<String>,
}

pub(super) async fn run(client: &Client, update: &UpdateLink, is_json: bool) -> anyhow::Result<()> {
    let id = update.id.to_string();
    let call = Call::new(Method::PATCH, &["v1", "links", &id], StatusCode::OK)
        .header("if-match", update.if_match.clone())
        .body(json!({ "destination_url": update.destination_url }));
    let answer = client.send(&call).await?;
    print_link(client, &call, &answer, is_json)?;
    client.settle(&answer).await;
    Ok(())
}
