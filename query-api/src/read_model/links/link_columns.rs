//! Links of a page as parallel arrays of equal length, and their conversion.

use std::iter::zip;

use linkledger_core::{
    http::link_body::LinkParts,
    id::LinkId,
    link::{DisabledBy, Expiry, LinkDetails, Tags},
};
use time::OffsetDateTime;
use uuid::Uuid;

use super::LinkView;

/// Columns of the links of a page, from a row of a statement.
pub(super) struct LinkColumns {
    pub(super) link_ids: Vec<Uuid>,
    pub(super) slugs: Vec<String>,
    pub(super) destination_urls: Vec<String>,
    pub(super) versions: Vec<i64>,
    pub(super) created_at: Vec<OffsetDateTime>,
    pub(super) titles: Vec<Option<String>>,
    pub(super) external_ids: Vec<Option<String>>,
    /// Tags separated by spaces, which no tag contains: arrays of different lengths cannot be elements of an array.
    pub(super) tags: Vec<Option<String>>,
    pub(super) expires_at: Vec<Option<OffsetDateTime>>,
    pub(super) expired_urls: Vec<Option<String>>,
    pub(super) disabled_by: Vec<Option<String>>,
}

/// Moves the columns of the links out of a row.
macro_rules! link_columns {
    ($row:expr) => {
        $crate::read_model::links::link_columns::LinkColumns {
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
pub(super) use link_columns;

impl LinkColumns {
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
                        expired_url,
                    },
                    disabled_by: disabled_by.as_deref().and_then(DisabledBy::of_name),
                },
                version,
            }
        })
    }
}

fn tags_of_text(text: &str) -> Option<Tags> {
    Tags::of(text.split(' ').map(str::to_owned).collect())
}
