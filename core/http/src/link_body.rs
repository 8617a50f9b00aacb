//! A link as sent to clients, with the same members in lists, reads and changes
//! (`docs/api.md#links`).

use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

use crate::openapi::{ExternalId, ShortUrl, TagSet, Timestamp, Title};
use linkledger_core::{
    id::LinkId,
    link::{
        Destination, DisabledBy, ExistingLink, Expiry, LinkDetails, LinkState, Tags,
        members::{DISABLED, DISABLED_BY, EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, TAGS, TITLE},
    },
    timestamp,
};

/// A link. The answer to a create also has the charge. A detail that is not set is absent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Link)]
pub struct LinkBody {
    #[schema(inline)]
    pub(crate) id: LinkId,
    #[schema(inline, value_type = Destination)]
    destination_url: String,
    #[schema(inline, value_type = ShortUrl)]
    pub(crate) short_url: String,
    #[schema(inline, value_type = Timestamp)]
    created_at: String,
    #[schema(inline, value_type = Title, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[schema(inline, value_type = ExternalId, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[schema(inline, value_type = TagSet, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Tags>,
    // Instant from which the link no longer leads to its destination.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Expiry>,
    // Address of the redirect after `expires_at`; without it, visitors then receive 410.
    #[schema(inline, value_type = Destination, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    expired_url: Option<Destination>,
    /// True if the link is out of service: visitors receive 410. Absent otherwise.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
    #[schema(inline, value_type = Role, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disabled_by: Option<DisabledBy>,
}

/// Role that disabled a link, in the OpenAPI document.
struct Role;

impl PartialSchema for Role {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(DisabledBy::ALL.map(DisabledBy::name)))
            .description(Some(
                "Role that disabled the link: `operator` before `owner`. Only an operator enables a link that an \
                 operator has disabled. Absent if the link is not disabled.",
            ))
            .into()
    }
}

impl ToSchema for Role {}

/// Fields of a link for its body.
#[derive(Debug)]
pub struct LinkParts {
    /// Id of the link.
    pub id: LinkId,
    /// Slug as chosen or generated.
    pub slug: String,
    /// Destination URL, serialised.
    pub destination_url: String,
    /// Time at which the link was created.
    pub created_at: OffsetDateTime,
    /// Details of the link.
    pub details: LinkDetails,
    /// Role that the link is disabled by.
    pub disabled_by: Option<DisabledBy>,
}

impl LinkParts {
    /// Returns the fields of a link.
    pub fn of(link: &ExistingLink) -> Self {
        let disabled_by = link.state.disabled_by();
        // Without `..`: the compiler names a member that the body lacks.
        let LinkState {
            slug,
            created_at,
            destination_url,
            disabled_by_operator: _,
            disabled_by_owner: _,
            deleted: _,
            details,
        } = link.state.clone();
        Self {
            id: link.link_id,
            slug,
            destination_url: destination_url.into_string(),
            created_at,
            details,
            disabled_by,
        }
    }

    /// Returns the short address of the link.
    pub fn short_url(&self, short_base_url: &str) -> String {
        format!("{short_base_url}/{}", self.slug)
    }
}

impl LinkBody {
    /// Returns the body of a link whose short address starts with `short_base_url`.
    pub fn new(link: LinkParts, short_base_url: &str) -> Self {
        let short_url = link.short_url(short_base_url);
        let LinkDetails {
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
        } = link.details;
        Self {
            id: link.id,
            short_url,
            destination_url: link.destination_url,
            created_at: timestamp::format(link.created_at),
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
            disabled: link.disabled_by.is_some(),
            disabled_by: link.disabled_by,
        }
    }

    /// Returns the example of the `OpenAPI` document, with all members.
    pub fn example() -> Value {
        json!({
            "id": "lnk_01h455vb4pex5vsknk084sn02q",
            "destination_url": "https://example.com/offers?season=spring",
            "short_url": "https://sho.rt/Spring-26",
            "created_at": "2026-11-20T09:51:00.123Z",
            TITLE: "Spring offers",
            EXTERNAL_ID: "offers/2026-spring",
            TAGS: ["offers", "spring"],
            EXPIRES_AT: "2099-12-31T23:59:59.000Z",
            EXPIRED_URL: "https://example.com/offers",
            DISABLED: true,
            DISABLED_BY: DisabledBy::Owner,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use linkledger_core::link::members::NEW_LINK;

    fn names(object: &Value) -> BTreeSet<String> {
        object.as_object().unwrap().keys().cloned().collect()
    }

    fn members() -> BTreeSet<String> {
        names(&serde_json::to_value(LinkBody::schema()).unwrap()["properties"])
    }

    #[test]
    fn example_of_link_has_all_members() {
        assert_eq!(names(&LinkBody::example()), members());
    }

    #[test]
    fn console_and_export_have_every_member() {
        let console = include_str!("../../../query-api/console/link_members.js");
        for name in NEW_LINK {
            let line = format!("name: \"{name}\"");
            assert!(
                console.contains(&line),
                "query-api/console/link_members.js: {line}"
            );
        }
        let export = include_str!("../../../deploy/local/src/export/row.rs");
        let (_, columns) = export.split_once("const COLUMNS").unwrap();
        let (columns, _) = columns.split_once("];").unwrap();
        // The column of the operator or owner who disabled the link says both.
        for name in members().iter().filter(|name| *name != DISABLED) {
            let column = format!("\"{name}\"");
            assert!(
                columns.contains(&column),
                "deploy/local/src/export/row.rs: {column}"
            );
        }
    }

    #[test]
    fn contract_lists_every_member_of_a_link() {
        let contract = include_str!("../../../docs/api.md");
        let (_, section) = contract.split_once("\n## Links\n").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let (of_link, of_create) = section.split_once("\nA create takes").unwrap();
        let of_create = of_create.lines().next().unwrap();
        for name in members() {
            let quoted = format!("`{name}`");
            assert!(of_link.contains(&quoted), "docs/api.md, links: {quoted}");
        }
        for name in NEW_LINK {
            let quoted = format!("`{name}`");
            assert!(
                of_create.contains(&quoted),
                "docs/api.md, creates: {quoted}"
            );
        }
    }

    #[test]
    fn link_without_details_has_four_members() {
        let parts = LinkParts {
            id: "lnk_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            slug: "Spring-26".to_owned(),
            destination_url: "https://example.com/".to_owned(),
            created_at: time::macros::datetime!(2026-11-20 09:51 UTC),
            details: LinkDetails::NONE,
            disabled_by: None,
        };
        let body = serde_json::to_string(&LinkBody::new(parts, "https://sho.rt")).unwrap();
        let expected = r#"{"id":"lnk_01h455vb4pex5vsknk084sn02q","destination_url":"https://example.com/","short_url":"https://sho.rt/Spring-26","created_at":"2026-11-20T09:51:00.000Z"}"#;
        assert_eq!(body, expected);
    }
}
