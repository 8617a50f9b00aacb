//! Columns of `read_model.links` in statements: of a link by itself, and of the links of a page as parallel arrays.

use std::iter::zip;

use linkledger_core::{
    id::LinkId,
    link::{Destination, DisabledBy, Expiry, LinkDetails, Tags},
    shard::Position,
};
use linkledger_http::link_body::LinkParts;
use time::OffsetDateTime;
use uuid::Uuid;

use super::LinkView;

/// Row of a link read by its id: a checkpoint, if wanted, and a link, if found.
pub(super) struct LinkRow {
    pub(super) epoch: Option<i32>,
    pub(super) position: Option<Position>,
    pub(super) is_parked: Option<bool>,
    pub(super) link_id: Option<Uuid>,
    pub(super) slug: Option<String>,
    pub(super) destination_url: Option<String>,
    pub(super) version: Option<i64>,
    pub(super) created_at: Option<OffsetDateTime>,
    pub(super) title: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) tags: Option<Vec<String>>,
    pub(super) expires_at: Option<OffsetDateTime>,
    pub(super) expired_url: Option<String>,
    pub(super) disabled_by: Option<String>,
}

impl LinkRow {
    pub(super) fn into_link(self) -> Option<LinkView> {
        Some(LinkView {
            parts: LinkParts {
                id: LinkId::from_uuid(self.link_id?),
                slug: self.slug?,
                destination_url: self.destination_url?,
                created_at: self.created_at?,
                details: LinkDetails {
                    title: self.title,
                    external_id: self.external_id,
                    tags: self.tags.and_then(Tags::of),
                    expires_at: self.expires_at.map(Expiry::at),
                    expired_url: self.expired_url.map(Destination::stored),
                },
                disabled_by: self.disabled_by.as_deref().and_then(DisabledBy::of_name),
            },
            version: self.version?,
        })
    }
}

/// Links of a page as arrays of equal length, from a row of [`query_link_arrays`].
pub(super) struct LinkArrays {
    pub(super) link_ids: Vec<Uuid>,
    pub(super) slugs: Vec<String>,
    pub(super) destination_urls: Vec<String>,
    pub(super) versions: Vec<i64>,
    pub(super) created_at: Vec<OffsetDateTime>,
    pub(super) titles: Vec<Option<String>>,
    pub(super) external_ids: Vec<Option<String>>,
    /// Tags separated by commas, which no tag contains: arrays of different lengths cannot be elements of an array.
    pub(super) tags: Vec<Option<String>>,
    pub(super) expires_at: Vec<Option<OffsetDateTime>>,
    pub(super) expired_urls: Vec<Option<String>>,
    pub(super) disabled_by: Vec<Option<String>>,
}

/// Statement that returns the links of a page in one row: a row for each link would repeat the checkpoint, and would cost the
/// database and query-api more. Aggregates keep the order of a sorted subquery.
///
/// The three texts surround the columns of the row `l`, and the aggregates of the subquery `l`. A row without a slug is of a
/// link that only `read_model.link_tags` names.
macro_rules! query_link_arrays {
    ([$checkpoint:literal], [$from:literal], [$($page:tt)+], $($parameter:expr),+) => {
        sqlx::query!(
            $checkpoint
                + r#"
                l.link_ids AS "link_ids!", l.slugs AS "slugs!",
                l.destination_urls AS "destination_urls!", l.versions AS "versions!",
                l.created_at AS "created_at!", l.titles AS "titles!: Vec<Option<String>>",
                l.external_ids AS "external_ids!: Vec<Option<String>>",
                l.tags AS "tags!: Vec<Option<String>>",
                l.expires_at AS "expires_at!: Vec<Option<time::OffsetDateTime>>",
                l.expired_urls AS "expired_urls!: Vec<Option<String>>",
                l.disabled_by AS "disabled_by!: Vec<Option<String>>"
                "#
                + $from
                + r#"
                coalesce(array_agg(link_id), '{}') AS link_ids,
                coalesce(array_agg(coalesce(slug, '')), '{}') AS slugs,
                coalesce(array_agg(coalesce(destination_url, '')), '{}') AS destination_urls,
                coalesce(array_agg(coalesce(version, 0)), '{}') AS versions,
                coalesce(array_agg(coalesce(created_at, 'epoch')), '{}') AS created_at,
                coalesce(array_agg(title), '{}') AS titles,
                coalesce(array_agg(external_id), '{}') AS external_ids,
                coalesce(array_agg(array_to_string(tags, ',')), '{}') AS tags,
                coalesce(array_agg(expires_at), '{}') AS expires_at,
                coalesce(array_agg(expired_url), '{}') AS expired_urls,
                coalesce(array_agg(disabled_by), '{}') AS disabled_by
                "#
                + $($page)+,
            $($parameter),+
        )
    };
}
pub(super) use query_link_arrays;

/// Moves the arrays out of a row of [`query_link_arrays`], which has other columns too.
macro_rules! link_arrays {
    ($row:expr) => {
        $crate::read_model::links::link_columns::LinkArrays {
            link_ids: $row.link_ids,
            slugs: $row.slugs,
            destination_urls: $row.destination_urls,
            versions: $row.versions,
            created_at: $row.created_at,
            titles: $row.titles,
            external_ids: $row.external_ids,
            tags: $row.tags,
            expires_at: $row.expires_at,
            expired_urls: $row.expired_urls,
            disabled_by: $row.disabled_by,
        }
    };
}
pub(super) use link_arrays;

impl LinkArrays {
    /// Returns the links, in the order of the page.
    pub(super) fn into_links(self) -> impl Iterator<Item = LinkView> {
        let texts = zip(self.slugs, self.destination_urls);
        let numbers = zip(self.versions, self.created_at);
        let labels = zip(zip(self.titles, self.external_ids), self.tags);
        let expiries = zip(self.expires_at, self.expired_urls);
        let required = zip(zip(self.link_ids, texts), numbers);
        let optional = zip(zip(labels, expiries), self.disabled_by);
        zip(required, optional).map(|(required, optional)| {
            let ((link_id, (slug, destination_url)), (version, created_at)) = required;
            let ((labels, (expires_at, expired_url)), disabled_by) = optional;
            let ((title, external_id), tags) = labels;
            LinkView {
                parts: LinkParts {
                    id: LinkId::from_uuid(link_id),
                    slug,
                    destination_url,
                    created_at,
                    details: LinkDetails {
                        title,
                        external_id,
                        tags: tags.as_deref().and_then(tags_of_text),
                        expires_at: expires_at.map(Expiry::at),
                        expired_url: expired_url.map(Destination::stored),
                    },
                    disabled_by: disabled_by.as_deref().and_then(DisabledBy::of_name),
                },
                version,
            }
        })
    }
}

fn tags_of_text(text: &str) -> Option<Tags> {
    Tags::of(text.split(',').map(str::to_owned).collect())
}
