//! A link as sent to clients: the same four members in lists, reads and changes
//! (`docs/api.md#links`).

use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{
    id::LinkId,
    link::Destination,
    openapi::{ShortUrl, Timestamp},
    timestamp,
};

/// A link: four members. The answer to a create has two more.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Link)]
pub struct LinkBody {
    #[schema(inline)]
    id: LinkId,
    #[schema(inline, value_type = Destination)]
    destination_url: String,
    #[schema(inline, value_type = ShortUrl)]
    short_url: String,
    #[schema(inline, value_type = Timestamp)]
    created_at: String,
}

/// Fields of a link for its body.
#[derive(Debug)]
pub struct LinkParts<'a> {
    /// Id of the link.
    pub id: LinkId,
    /// Slug as chosen or generated.
    pub slug: &'a str,
    /// Destination URL, serialised.
    pub destination_url: String,
    /// Time at which the link was created.
    pub created_at: OffsetDateTime,
}

impl LinkBody {
    /// Returns the body of a link whose short address starts with `short_base_url`.
    pub fn new(link: LinkParts<'_>, short_base_url: &str) -> Self {
        Self {
            id: link.id,
            destination_url: link.destination_url,
            short_url: format!("{short_base_url}/{}", link.slug),
            created_at: timestamp::format(link.created_at),
        }
    }

    /// Returns the example of the `OpenAPI` document.
    pub fn example() -> Value {
        json!({
            "id": "lnk_01h455vb4pex5vsknk084sn02q",
            "destination_url": "https://example.com/offers?season=spring",
            "short_url": "https://sho.rt/Spring-26",
            "created_at": "2026-11-20T09:51:00.123Z",
        })
    }
}
