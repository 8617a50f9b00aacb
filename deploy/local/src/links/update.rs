//! `linkledger links update`: changes the destination of a link.

use clap::Args;
use linkledger_core::link::LinkName;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{etag, find_link, print_link};
use crate::client::{ApiCall, ApiClient};

/// Options of `linkledger links update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateLinkOptions {
    /// Id (lnk_…), slug or short address of the link.
    link: LinkName,
    /// New destination: an http or https address.
    #[arg(long, value_name = "URL")]
    destination_url: String,
    /// Change only if the link still has this etag, which `links get` shows.
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<String>,
}

pub(super) async fn run(
    client: &ApiClient,
    update: &UpdateLinkOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let id = find_link(client, &update.link).await?.to_string();
    let call = ApiCall::new(Method::PATCH, &["v1", "links", &id], StatusCode::OK)
        .header("if-match", update.if_match.clone())
        .body(json!({ "destination_url": update.destination_url }));
    let answer = client.send(&call).await?;
    print_link(client, &call, &answer, is_json)?;
    client.settle(&answer).await;
    Ok(())
}
