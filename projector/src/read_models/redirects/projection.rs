//! Projection `redirects`: tables `read_model.redirects` and `read_model.stopped_accounts`, and the
//! changes that redirect caches must forget.
//!
//! The key of the table is the slug. A deleted link keeps its row: its slug is never used again.

use std::collections::BTreeMap;

use linkledger_core::{
    account::AccountEvent,
    link::{Expiry, LinkState},
};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    RedirectChanges,
    stopped_accounts::{self, StoppedAccounts},
};
use crate::read_models::{Creation, DecodedEvent, EventContent};

/// Key of the table: generation, lower-cased slug.
type Key = (i32, String);

/// Rows of both tables.
#[derive(Debug, Default)]
pub struct RedirectRows<'a> {
    /// Links after their last events in the batch.
    redirects: BTreeMap<Key, Row<'a>>,
    stopped_accounts: StoppedAccounts,
    /// Slugs and accounts with events other than creations.
    pub(crate) changes: RedirectChanges,
}

#[derive(Debug)]
struct Row<'a> {
    link_id: Uuid,
    account_id: Uuid,
    state: &'a LinkState,
    /// True if the batch has the creation of the link.
    is_new: bool,
}

impl<'a> RedirectRows<'a> {
    pub(crate) fn project(&mut self, generation: i32, event: &'a DecodedEvent) {
        match &event.content {
            EventContent::Link(state) => self.put(generation, event, state),
            EventContent::Account(AccountEvent::Suspended(suspended)) => {
                let account_id = suspended.account_id.uuid();
                self.stop((generation, account_id), suspended.stop_redirects);
            }
            EventContent::Account(AccountEvent::Resumed(resumed)) => {
                self.stop((generation, resumed.account_id.uuid()), false);
            }
            // Redirects do not depend on names, keys, webhooks, observations and credits.
            EventContent::Account(AccountEvent::Created(_) | AccountEvent::Changed(_))
            | EventContent::ApiKey(_)
            | EventContent::Webhook(_)
            | EventContent::Observation(_)
            | EventContent::Credits(_) => {}
        }
    }

    fn put(&mut self, generation: i32, event: &DecodedEvent, state: &'a LinkState) {
        let recorded = &event.recorded;
        let slug_key = state.slug_key();
        let is_new = recorded.version == 1;
        if !is_new {
            self.changes.add_slug(&slug_key);
        }
        let row = self.redirects.entry((generation, slug_key)).or_insert(Row {
            link_id: recorded.stream_id,
            account_id: recorded.account_id.uuid(),
            state,
            is_new,
        });
        row.state = state;
    }

    fn stop(&mut self, key: (i32, Uuid), is_stopped: bool) {
        self.changes.add_account(key.1);
        self.stopped_accounts.insert(key, is_stopped);
    }

    pub(crate) async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        let (mut inserts, mut puts) = (Columns::default(), Columns::default());
        for (key, row) in &self.redirects {
            if row.is_new && creation == Creation::Insert {
                inserts.push(key, row);
            } else {
                puts.push(key, row);
            }
        }
        inserts.write_in_tx(tx, Creation::Insert).await?;
        puts.write_in_tx(tx, Creation::Put).await?;
        stopped_accounts::write_in_tx(tx, &self.stopped_accounts).await
    }
}

/// Rows as columns, for `unnest`.
#[derive(Debug, Default)]
struct Columns<'a> {
    generations: Vec<i32>,
    slug_keys: Vec<&'a str>,
    link_ids: Vec<Uuid>,
    account_ids: Vec<Uuid>,
    destination_urls: Vec<&'a str>,
    states: Vec<&'static str>,
    expires_at: Vec<Option<OffsetDateTime>>,
    expired_urls: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, (generation, slug_key): &'a Key, row: &Row<'a>) {
        // Without `..`: the compiler names a member that the rows lack.
        let LinkState {
            slug: _,
            created_at: _,
            destination_url,
            disabled_by_operator: _,
            disabled_by_owner: _,
            deleted: _,
            details,
        } = row.state;
        self.generations.push(*generation);
        self.slug_keys.push(slug_key);
        self.link_ids.push(row.link_id);
        self.account_ids.push(row.account_id);
        self.destination_urls.push(destination_url);
        self.states.push(state_name(row.state));
        self.expires_at
            .push(details.expires_at.map(Expiry::instant));
        self.expired_urls.push(details.expired_url.as_deref());
    }

    async fn write_in_tx(&self, tx: &mut PgConnection, creation: Creation) -> sqlx::Result<()> {
        if self.slug_keys.is_empty() {
            return Ok(());
        }
        macro_rules! put {
            ($on_conflict:literal) => {
                sqlx::query!(
                    "
                    INSERT INTO read_model.redirects
                        (generation, slug_key, link_id, account_id, destination_url, state,
                         expires_at, expired_url)
                    SELECT * FROM unnest($1::integer[], $2::text[], $3::uuid[], $4::uuid[],
                                         $5::text[], $6::text[], $7::timestamptz[], $8::text[])
                    " + $on_conflict,
                    &self.generations,
                    &self.slug_keys as &[&str],
                    &self.link_ids,
                    &self.account_ids,
                    &self.destination_urls as &[&str],
                    &self.states as &[&str],
                    &self.expires_at as &[Option<OffsetDateTime>],
                    &self.expired_urls as &[Option<&str>]
                )
                .execute(tx)
                .await?
            };
        }
        match creation {
            Creation::Insert => put!(""),
            Creation::Put => put!(
                "ON CONFLICT (generation, slug_key) DO UPDATE
                 SET link_id = excluded.link_id, account_id = excluded.account_id,
                     destination_url = excluded.destination_url, state = excluded.state,
                     expires_at = excluded.expires_at, expired_url = excluded.expired_url"
            ),
        };
        Ok(())
    }
}

/// Returns the name of the link's state for the short host.
pub(crate) fn state_name(link: &LinkState) -> &'static str {
    if link.deleted {
        "deleted"
    } else if link.disabled_by().is_some() {
        "disabled"
    } else {
        "active"
    }
}
