//! Optional members of the links of a page, as parallel arrays of equal length.

use linkledger_core::link::{DisabledBy, Expiry, LinkDetails, Tags};
use time::OffsetDateTime;

pub(super) struct DetailColumns {
    pub(super) titles: Vec<Option<String>>,
    pub(super) external_ids: Vec<Option<String>>,
    /// Tags separated by spaces, which no tag contains: arrays of different lengths cannot be elements of an array.
    pub(super) tags: Vec<Option<String>>,
    pub(super) expires_at: Vec<Option<OffsetDateTime>>,
    pub(super) expired_urls: Vec<Option<String>>,
    pub(super) disabled_by: Vec<Option<String>>,
}

impl DetailColumns {
    /// Returns the details of each link, and the role that the link is disabled by.
    pub(super) fn into_rows(self) -> impl Iterator<Item = (LinkDetails, Option<DisabledBy>)> {
        let ids = self.titles.into_iter().zip(self.external_ids);
        let expiries = self.expires_at.into_iter().zip(self.expired_urls);
        let details = ids.zip(self.tags).zip(expiries);
        let details = details.map(
            |(((title, external_id), tags), (expires_at, expired_url))| LinkDetails {
                title,
                external_id,
                tags: tags.as_deref().and_then(tags_of_text),
                expires_at: expires_at.map(Expiry::at),
                expired_url,
            },
        );
        let disabled_by = self.disabled_by.into_iter();
        details.zip(disabled_by.map(|role| role.as_deref().and_then(DisabledBy::of_name)))
    }
}

fn tags_of_text(text: &str) -> Option<Tags> {
    Tags::of(text.split(' ').map(str::to_owned).collect())
}
