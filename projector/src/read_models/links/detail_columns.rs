//! Details of links as columns of `read_model.links`.

use linkledger_core::link::{DetailChanges, Expiry, LinkCreated, Tags, ValueUpdate};
use time::OffsetDateTime;

/// Update of the details of a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DetailUpdate<'a> {
    title: ValueUpdate<&'a str>,
    external_id: ValueUpdate<&'a str>,
    tags: ValueUpdate<&'a Tags>,
    expires_at: ValueUpdate<Expiry>,
    expired_url: ValueUpdate<&'a str>,
}

impl<'a> DetailUpdate<'a> {
    /// Returns the update by a creation, which sets all details.
    pub(super) fn of_creation(created: &'a LinkCreated) -> Self {
        Self {
            title: ValueUpdate::to(created.title.as_deref()),
            external_id: ValueUpdate::to(created.external_id.as_deref()),
            tags: ValueUpdate::to(created.tags.as_ref()),
            expires_at: ValueUpdate::to(created.expires_at),
            expired_url: ValueUpdate::to(created.expired_url.as_deref()),
        }
    }

    /// Returns the update by a change of details.
    pub(super) fn of_change(changes: &'a DetailChanges) -> Self {
        let of = ValueUpdate::of_change;
        Self {
            title: of(changes.title.as_ref()).map(String::as_str),
            external_id: of(changes.external_id.as_ref()).map(String::as_str),
            tags: ValueUpdate::of_change(changes.tags.as_ref()),
            expires_at: ValueUpdate::of_change(changes.expires_at.as_ref()).map(|at| *at),
            expired_url: of(changes.expired_url.as_ref()).map(String::as_str),
        }
    }

    /// Adds a later update.
    pub(super) fn append(&mut self, later: Self) {
        self.title = later.title.or(self.title);
        self.external_id = later.external_id.or(self.external_id);
        self.tags = later.tags.or(self.tags);
        self.expires_at = later.expires_at.or(self.expires_at);
        self.expired_url = later.expired_url.or(self.expired_url);
    }

    /// Returns true if the link has tags after the update.
    pub(super) fn has_tags(&self) -> bool {
        self.tags.value().is_some()
    }

    /// Returns true if the tags are not kept.
    pub(super) fn changes_tags(&self) -> bool {
        !self.tags.is_keep()
    }

    /// Returns the names of the columns that are not kept, separated by spaces, for
    /// `string_to_array`.
    pub(super) fn changed_columns(&self) -> String {
        let columns = [
            ("title", self.title.is_keep()),
            ("external_id", self.external_id.is_keep()),
            ("tags", self.tags.is_keep()),
            ("expires_at", self.expires_at.is_keep()),
            ("expired_url", self.expired_url.is_keep()),
        ];
        let changed = columns.into_iter().filter(|(_, is_kept)| !is_kept);
        let names: Vec<&str> = changed.map(|(name, _)| name).collect();
        names.join(" ")
    }
}

/// Updates of rows as columns, for `unnest`.
#[derive(Debug)]
pub(super) struct DetailColumns<'a> {
    pub(super) titles: Vec<Option<&'a str>>,
    pub(super) external_ids: Vec<Option<&'a str>>,
    /// Tags separated by commas, which no tag contains.
    pub(super) tags: Vec<Option<String>>,
    pub(super) expires_at: Vec<Option<OffsetDateTime>>,
    pub(super) expired_urls: Vec<Option<&'a str>>,
}

impl<'a> DetailColumns<'a> {
    /// Returns the columns of these updates. A value that is kept is null.
    pub(super) fn of(updates: &[&DetailUpdate<'a>]) -> Self {
        let tags = |update: &&DetailUpdate<'a>| {
            let tags = update.tags.value()?;
            Some(tags.as_slice().join(","))
        };
        let expires_at = |update: &&DetailUpdate<'a>| {
            let expires_at = update.expires_at.value();
            expires_at.map(Expiry::instant)
        };
        let updates = updates.iter();
        Self {
            titles: updates.clone().map(|it| it.title.value()).collect(),
            external_ids: updates.clone().map(|it| it.external_id.value()).collect(),
            tags: updates.clone().map(tags).collect(),
            expires_at: updates.clone().map(expires_at).collect(),
            expired_urls: updates.map(|it| it.expired_url.value()).collect(),
        }
    }
}
