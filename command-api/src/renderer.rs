//! The body of the answer to a create. A replay uses the renderer of the first answer, so that both bodies are equal to the
//! byte: a renderer never changes, and a new renderer gets a new number.
//!
//! A new optional member is a field of `CreatedLink` that is absent if `settled.renderer` is older
//! than the member. Any other difference needs a second struct.

use linkledger_core::{
    commands::CreateResult,
    id::LinkId,
    link::{
        Destination, Expiry, Tags,
        members::{DISABLED, DISABLED_BY},
    },
    timestamp,
};
use linkledger_http::{
    link_body::LinkBody,
    openapi::{ExternalId, ShortUrl, TagSet, Timestamp, Title},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Number of the newest renderer, which new creates get.
pub const CURRENT: u8 = 1;

/// Renders the body with renderer `settled.renderer`. Returns `None` if this release does not have
/// the renderer.
pub fn render(settled: &CreateResult) -> Option<Vec<u8>> {
    let body = (settled.renderer == CURRENT).then(|| CreatedLink::of(settled))?;
    Some(serde_json::to_vec(&body).expect("strings and integers can be written"))
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedLink<'a> {
    #[schema(inline, value_type = LinkId)]
    id: String,
    #[schema(inline, value_type = ShortUrl)]
    short_url: &'a str,
    #[schema(inline, value_type = Destination)]
    destination_url: &'a str,
    #[schema(inline, value_type = Timestamp)]
    created_at: String,
    /// Price that was charged for this link.
    #[schema(minimum = 0)]
    credits_charged: i64,
    /// Balance right after the charge.
    #[schema(minimum = 0)]
    credits_balance: i64,
    #[schema(inline, value_type = Title, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[schema(inline, value_type = ExternalId, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
    #[schema(inline, value_type = TagSet, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'a Tags>,
    // Instant from which the link no longer leads to its destination.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Expiry>,
    // Address of the redirect after `expires_at`; without it, visitors then receive 410.
    #[schema(inline, value_type = Destination, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    expired_url: Option<&'a str>,
}

impl<'a> CreatedLink<'a> {
    fn of(settled: &'a CreateResult) -> Self {
        let link = &settled.link;
        Self {
            id: link.link_id.to_string(),
            short_url: &link.short_url,
            destination_url: &link.destination_url,
            created_at: timestamp::format(settled.created_at),
            credits_charged: settled.charge.amount,
            credits_balance: settled.charge.balance_after,
            title: link.title.as_deref(),
            external_id: link.external_id.as_deref(),
            tags: link.tags.as_ref(),
            expires_at: link.expires_at,
            expired_url: link.expired_url.as_deref(),
        }
    }
}

impl CreatedLink<'_> {
    /// Returns the example of the `OpenAPI` document, with all members.
    pub(crate) fn example() -> Value {
        let mut example = LinkBody::example();
        for name in [DISABLED, DISABLED_BY] {
            example.as_object_mut().expect("a link").remove(name);
        }
        example["credits_charged"] = 1.into();
        example["credits_balance"] = 999.into();
        example
    }
}

#[cfg(test)]
mod tests;
