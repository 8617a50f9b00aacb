//! `linkledger links update`: changes destination and details of a link, and disables or enables it.

use clap::Args;
use linkledger_core::link::{
    LinkName,
    members::{DESTINATION_URL, DISABLED},
};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value};

use super::{details::DetailOptions, etag, find_link, print_link};
use crate::{
    client::{ApiCall, ApiClient},
    output::WrongUse,
};

/// Options of `linkledger links update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateLinkOptions {
    /// Id (lnk_…), slug or short address of the link.
    link: LinkName,
    /// New destination: an http or https address.
    #[arg(long, value_name = "URL")]
    destination_url: Option<String>,
    #[command(flatten)]
    details: DetailOptions,
    /// Take the link out of service: visitors receive 410 until --enable.
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Put the link back into service.
    #[arg(long)]
    enable: bool,
    /// Change only if the link still has this etag, which `links get` shows.
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<String>,
}

pub(super) async fn run(
    client: &ApiClient,
    update: &UpdateLinkOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let mut body = Map::new();
    if let Some(destination_url) = &update.destination_url {
        body.insert(DESTINATION_URL.to_owned(), destination_url.as_str().into());
    }
    update.details.patch(&mut body);
    if update.disable || update.enable {
        body.insert(DISABLED.to_owned(), update.disable.into());
    }
    if body.is_empty() {
        let advice =
            "name a change, such as --destination-url or --title; an empty value removes a detail";
        return Err(WrongUse(advice.to_owned()).into());
    }
    let id = find_link(client, &update.link).await?.to_string();
    let call = ApiCall::new(Method::PATCH, &["v1", "links", &id], StatusCode::OK)
        .header("if-match", update.if_match.clone())
        .body(Value::Object(body));
    let answer = client.send(&call).await?;
    print_link(client, &call, &answer, is_json)?;
    client.settle(answer.token()).await;
    Ok(())
}
