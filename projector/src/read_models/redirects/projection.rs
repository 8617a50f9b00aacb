//! Projection `redirects`: tables `read_model.redirects` and `read_model.stopped_accounts`, and the
//! changes that redirect caches must forget.
//!
//! The key of the table is the slug, which most events of a link lack: the slug is read from the
//! first event of the link's stream. An index by link would avoid the read, but would slow down
//! every create, and changes are rare.

use std::collections::BTreeMap;

use linkledger_core::{
    account::AccountEvent,
    event::Event,
    link::{Expiry, LinkEvent, ValueUpdate},
};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{FoldedSlugs, RedirectChanges, fold, stopped_accounts::StoppedAccounts};
use crate::read_models::{Creation, DecodedEvent};

/// Key of the table: generation, folded slug.
type Key = (i32, String);

/// Changes of rows of both tables.
#[derive(Debug, Default)]
pub struct RedirectRows<'a> {
    /// Changes by key. All events of one link lead to one change.
    redirects: BTreeMap<Key, Change<'a>>,
    stopped_accounts: StoppedAccounts,
    /// Slugs and accounts with events other than creations.
    changes: RedirectChanges,
}

/// Change of a row; `None` keeps the value.
#[derive(Debug, Default)]
struct Change<'a> {
    /// Link and account, if the link was created in this batch: the whole row is known.
    created: Option<(Uuid, Uuid)>,
    destination_url: Option<&'a str>,
    state: Option<State>,
    /// Update of the expiry.
    expires_at: ValueUpdate<Expiry>,
    /// Update of the destination after the expiry.
    expired_url: ValueUpdate<&'a str>,
}

/// State of a link for the short host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    Disabled,
    /// Deleted; final.
    Deleted,
}

impl State {
    /// Name in SQL.
    const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Deleted => "deleted",
        }
    }
}

impl Change<'_> {
    /// Adds a later change. A deleted link stays deleted.
    fn append(&mut self, later: &Self) {
        if self.state != Some(State::Deleted) {
            self.destination_url = later.destination_url.or(self.destination_url);
            self.state = later.state.or(self.state);
            self.expires_at = later.expires_at.or(self.expires_at);
            self.expired_url = later.expired_url.or(self.expired_url);
        }
    }
}

impl<'a> RedirectRows<'a> {
    pub(crate) fn project(
        &mut self,
        generation: i32,
        event: &'a DecodedEvent,
        slugs: &FoldedSlugs,
    ) {
        match &event.event {
            Event::Link(LinkEvent::Created(created)) => {
                let change = Change {
                    created: Some((created.link_id.uuid(), created.account_id.uuid())),
                    destination_url: Some(&created.destination_url),
                    state: Some(State::Active),
                    expires_at: ValueUpdate::to(created.expires_at),
                    expired_url: ValueUpdate::to(created.expired_url.as_deref()),
                };
                let key = (generation, fold(&created.slug));
                self.redirects.insert(key, change);
            }
            Event::Link(LinkEvent::DestinationChanged(changed)) => {
                let change = Change {
                    destination_url: Some(&changed.destination_url),
                    ..Change::default()
                };
                self.update_of(generation, slugs.of(changed.link_id), change);
            }
            Event::Link(LinkEvent::DetailsChanged(changed)) => {
                let details = &changed.changes;
                let expires_at = ValueUpdate::of_change(details.expires_at.as_ref());
                let expired_url = ValueUpdate::of_change(details.expired_url.as_ref());
                let change = Change {
                    expires_at: expires_at.map(|expires_at| *expires_at),
                    expired_url: expired_url.map(String::as_str),
                    ..Change::default()
                };
                self.update_of(generation, slugs.of(changed.link_id), change);
            }
            Event::Link(LinkEvent::Disabled(disabled)) => {
                let slug = slugs.of(disabled.link_id);
                self.update_of(generation, slug, State::Disabled.into());
            }
            Event::Link(LinkEvent::Enabled(enabled)) => {
                let slug = slugs.of(enabled.link_id);
                let state = match enabled.disabled_by {
                    Some(_) => State::Disabled,
                    None => State::Active,
                };
                self.update_of(generation, slug, state.into());
            }
            Event::Link(LinkEvent::Deleted(deleted)) => {
                let key = (generation, fold(&deleted.slug));
                self.update(key, State::Deleted.into());
            }
            Event::Account(AccountEvent::Suspended(suspended)) => {
                let account_id = suspended.account_id.uuid();
                self.stop((generation, account_id), suspended.stop_redirects);
            }
            Event::Account(AccountEvent::Resumed(resumed)) => {
                self.stop((generation, resumed.account_id.uuid()), false);
            }
            // Redirects do not depend on credits.
            Event::Credits(_) => {}
        }
    }

    fn stop(&mut self, key: (i32, Uuid), is_stopped: bool) {
        self.changes.add_account(key.1);
        self.stopped_accounts.set(key, is_stopped);
    }

    /// Adds an update. A link without a slug has no row: its creation is skipped.
    fn update_of(&mut self, generation: i32, slug: Option<&str>, change: Change<'a>) {
        if let Some(slug) = slug {
            self.update((generation, slug.to_owned()), change);
        }
    }

    fn update(&mut self, key: Key, change: Change<'a>) {
        self.changes.add_slug(&key.1);
        self.redirects
            .entry(key)
            .and_modify(|earlier| earlier.append(&change))
            .or_insert(change);
    }

    pub(crate) fn changes(&self) -> &RedirectChanges {
        &self.changes
    }

    /// Returns the changes with the slugs of all rows: a cache may hold another state of a row that a
    /// repair or rebuild puts again.
    pub(crate) fn into_changes_of_all_rows(mut self) -> RedirectChanges {
        for (_, slug_folded) in self.redirects.keys() {
            self.changes.add_slug(slug_folded);
        }
        self.changes
    }

    pub(crate) async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        let (mut puts, mut updates) = (Vec::new(), Vec::new());
        for (key, change) in &self.redirects {
            match change.created {
                Some(created) => puts.push((key, created, change)),
                None => updates.push((key, change)),
            }
        }
        put_in_tx(tx, &puts, creation).await?;
        update_in_tx(tx, &updates).await?;
        self.stopped_accounts.write_in_tx(tx).await
    }
}

impl From<State> for Change<'_> {
    fn from(state: State) -> Self {
        Self {
            state: Some(state),
            ..Self::default()
        }
    }
}

async fn put_in_tx(
    tx: &mut PgConnection,
    rows: &[(&Key, (Uuid, Uuid), &Change<'_>)],
    creation: Creation,
) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, ..)| key.0).collect();
    let slugs_folded: Vec<&str> = rows.iter().map(|(key, ..)| key.1.as_str()).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(_, created, _)| created.0).collect();
    let account_ids: Vec<Uuid> = rows.iter().map(|(_, created, _)| created.1).collect();
    let destination_urls: Vec<Option<&str>> =
        rows.iter().map(|(.., row)| row.destination_url).collect();
    let states = rows.iter().map(|(.., row)| row.state.map(State::name));
    let states: Vec<Option<&str>> = states.collect();
    let expires_at = rows.iter().map(|(.., row)| row.expires_at.value());
    let expires_at: Vec<_> = expires_at.map(|at| at.map(Expiry::instant)).collect();
    let expired_urls: Vec<Option<&str>> = rows
        .iter()
        .map(|(.., row)| row.expired_url.value())
        .collect();
    macro_rules! put {
        ($on_conflict:literal) => {
            sqlx::query!(
                "
                INSERT INTO read_model.redirects
                    (generation, slug_folded, link_id, account_id, destination_url, state,
                     expires_at, expired_url)
                SELECT * FROM unnest($1::integer[], $2::text[], $3::uuid[], $4::uuid[],
                                     $5::text[], $6::text[], $7::timestamptz[], $8::text[])
                "
                    + $on_conflict,
                &generations,
                &slugs_folded as &[&str],
                &link_ids,
                &account_ids,
                &destination_urls as &[Option<&str>],
                &states as &[Option<&str>],
                &expires_at as &[Option<OffsetDateTime>],
                &expired_urls as &[Option<&str>]
            )
            .execute(tx)
            .await?
        };
    }
    match creation {
        Creation::Insert => put!(""),
        Creation::Put => put!(
            "ON CONFLICT (generation, slug_folded) DO UPDATE
             SET link_id = excluded.link_id, account_id = excluded.account_id,
                 destination_url = excluded.destination_url, state = excluded.state,
                 expires_at = excluded.expires_at, expired_url = excluded.expired_url"
        ),
    };
    Ok(())
}

async fn update_in_tx(tx: &mut PgConnection, rows: &[(&Key, &Change<'_>)]) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, _)| key.0).collect();
    let slugs_folded: Vec<&str> = rows.iter().map(|(key, _)| key.1.as_str()).collect();
    let destination_urls: Vec<Option<&str>> =
        rows.iter().map(|(_, row)| row.destination_url).collect();
    let states = rows.iter().map(|(_, row)| row.state.map(State::name));
    let states: Vec<Option<&str>> = states.collect();
    let keep_expires_at: Vec<bool> = rows
        .iter()
        .map(|(_, row)| row.expires_at.is_keep())
        .collect();
    let expires_at = rows.iter().map(|(_, row)| row.expires_at.value());
    let expires_at: Vec<_> = expires_at.map(|at| at.map(Expiry::instant)).collect();
    let keep_expired_url: Vec<bool> = rows
        .iter()
        .map(|(_, row)| row.expired_url.is_keep())
        .collect();
    let expired_urls: Vec<Option<&str>> = rows
        .iter()
        .map(|(_, row)| row.expired_url.value())
        .collect();
    sqlx::query!(
        "
        UPDATE read_model.redirects AS r
        SET destination_url = coalesce(later.destination_url, r.destination_url),
            state = coalesce(later.state, r.state),
            expires_at = CASE WHEN later.keep_expires_at THEN r.expires_at
                              ELSE later.expires_at END,
            expired_url = CASE WHEN later.keep_expired_url THEN r.expired_url
                               ELSE later.expired_url END
        FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::boolean[],
                    $6::timestamptz[], $7::boolean[], $8::text[])
            AS later (generation, slug_folded, destination_url, state, keep_expires_at,
                      expires_at, keep_expired_url, expired_url)
        WHERE r.generation = later.generation AND r.slug_folded = later.slug_folded
          AND r.state <> 'deleted'
        ",
        &generations,
        &slugs_folded as &[&str],
        &destination_urls as &[Option<&str>],
        &states as &[Option<&str>],
        &keep_expires_at,
        &expires_at as &[Option<OffsetDateTime>],
        &keep_expired_url,
        &expired_urls as &[Option<&str>]
    )
    .execute(tx)
    .await?;
    Ok(())
}
