//! The body of the answer to a create. A replay uses the renderer of the first answer, so that both bodies are equal to the
//! byte: a renderer never changes, and a new renderer gets a new number.

use linkledger_core::{
    batch::SettledCreate,
    id::LinkId,
    link::Destination,
    openapi::{ShortUrl, Timestamp},
    timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

/// Number of the renderer of new answers.
pub const CURRENT: u8 = 1;

/// Renders the body with renderer `settled.renderer`. Returns `None` if this release does not have
/// the renderer.
pub fn render(settled: &SettledCreate) -> Option<Vec<u8>> {
    match settled.renderer {
        1 => Some(render_v1(settled)),
        _ => None,
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = CreatedLink)]
pub(crate) struct CreatedLinkV1<'a> {
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
}

fn render_v1(settled: &SettledCreate) -> Vec<u8> {
    serde_json::to_vec(&CreatedLinkV1 {
        id: settled.link.link_id.to_string(),
        short_url: &settled.link.short_url,
        destination_url: &settled.link.destination_url,
        created_at: timestamp::format(settled.created_at),
        credits_charged: settled.charge.amount,
        credits_balance: settled.charge.balance_after,
    })
    .expect("strings and integers can be written")
}

#[cfg(test)]
mod tests {
    use linkledger_core::{event::Event, link::LinkEvent};
    use time::macros::datetime;

    use super::*;

    #[test]
    fn renderer_1_never_changes() {
        let golden = |name: &str, payload: &str| Event::from_stored(name, 1, payload).unwrap();
        let link = golden(
            "LinkCreated",
            include_str!("../../core/tests/events/LinkCreated.v1.json"),
        );
        let charge = include_str!("../../core/tests/events/CreditsCharged.v1.json");
        let Event::Link(LinkEvent::Created(link)) = link else {
            panic!("not a link's event")
        };
        let settled = SettledCreate {
            fingerprint: [0; 32],
            link,
            charge: serde_json::from_str(charge).unwrap(),
            created_at: datetime!(2026-11-20 09:51:00.123 UTC),
            renderer: 1,
            position: 2,
        };
        let body = String::from_utf8(render(&settled).unwrap()).unwrap();
        assert_eq!(
            body,
            include_str!("../tests/created_link.v1.json").trim_end()
        );
        assert!(
            render(&SettledCreate {
                renderer: 2,
                ..settled
            })
            .is_none()
        );
    }
}
