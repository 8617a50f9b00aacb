//! A link as it is sent: the same four members in lists and reads.

use linkledger_core::{
    id::LinkId,
    link::Destination,
    openapi::{ShortUrl, Timestamp},
    timestamp,
};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::read_model::links::Link;

#[derive(Serialize, ToSchema)]
#[schema(as = Link)]
pub(crate) struct LinkBody {
    #[schema(inline)]
    id: LinkId,
    #[schema(inline, value_type = Destination)]
    destination_url: String,
    #[schema(inline, value_type = ShortUrl)]
    short_url: String,
    #[schema(inline, value_type = Timestamp)]
    created_at: String,
}

impl LinkBody {
    pub(crate) fn of(link: Link, short_base_url: &str) -> Self {
        Self {
            id: link.id,
            destination_url: link.destination_url,
            short_url: format!("{short_base_url}/{}", link.slug),
            created_at: timestamp::format(link.created_at),
        }
    }

    /// As it stands in the document.
    pub(crate) fn example() -> serde_json::Value {
        json!({
            "id": "lnk_01h455vb4pex5vsknk084sn02q",
            "destination_url": "https://example.com/offers?season=spring",
            "short_url": "https://sho.rt/Spring-26",
            "created_at": "2026-11-20T09:51:00.123Z",
        })
    }
}
