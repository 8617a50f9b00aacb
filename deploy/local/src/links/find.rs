//! Look-up of the link that is named on the command line.

use linkledger_core::{id::LinkId, link::LinkName};
use serde::Deserialize;

use crate::{
    client::{ApiCall, ApiClient},
    output::LinkNotFound,
};

#[derive(Deserialize)]
struct FoundLinks {
    items: Vec<FoundLink>,
}

#[derive(Deserialize)]
struct FoundLink {
    id: LinkId,
    short_url: String,
}

/// Returns the id of the link with the name; asks the API unless the name is an id.
pub(crate) async fn find_link(client: &ApiClient, name: &LinkName) -> anyhow::Result<LinkId> {
    let slug = match (name, name.slug()) {
        (LinkName::Id(link_id), _) => return Ok(*link_id),
        (_, slug) => slug.map(ToString::to_string),
    };
    let call = ApiCall::get(&["v1", "links"]).query("slug", slug);
    let answer = client.send(&call).await?;
    let found: FoundLinks = client.read(&call, &answer)?;
    let mut links = found.items.iter();
    match links.find(|link| name.matches_short_url(&link.short_url)) {
        Some(link) => Ok(link.id),
        None => Err(LinkNotFound(not_found(name, &found.items)).into()),
    }
}

/// Returns what is missing, and why it may be missing although the user sees a link.
fn not_found(name: &LinkName, found: &[FoundLink]) -> String {
    let slug = name.slug().map(ToString::to_string).unwrap_or_default();
    if let Some(other) = found.first() {
        let address = &other.short_url;
        return format!(
            "the account has no link {name}; its link with the slug {slug} is {address}"
        );
    }
    if slug.starts_with("acc_") {
        return format!(
            "the account has no link {name}; acc_ begins the id of an account, not of a link"
        );
    }
    if slug.starts_with("lnk_") {
        return format!(
            "the account has no link {name}; if this is an id, copy the whole id: 26 characters follow lnk_"
        );
    }
    format!(
        "the account has no link {name}; a new link is found by its slug after a moment, and a deleted link \
         by its id only: lnk_…"
    )
}
