//! Projection `redirects`: tables `read_model.redirects` and `read_model.stopped_accounts`, and
//! what a cache of them has to be told.
//!
//! The table is keyed by slug, which most events of a link don't carry: it is read from the
//! beginning of the link's stream. An index by link would do as well, but every create would pay
//! for it, and changes are rare.

use std::collections::{BTreeMap, btree_map::Entry};

use linkledger_core::{
    account::AccountEvent, credits::CreditsEvent, event::Event, link::LinkEvent,
};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{FoldedSlugs, RedirectChanges, fold, stopped_accounts::StoppedAccounts};
use crate::read_models::{Creation, DecodedEvent};

/// Generation, folded slug.
type Key = (i32, String);

/// What becomes of rows of both tables.
#[derive(Debug, Default)]
pub struct RedirectRows<'a> {
    /// By the key of the table; the events of one link come to one change.
    redirects: BTreeMap<Key, Change<'a>>,
    stopped_accounts: StoppedAccounts,
    /// Of events that happened to links, whatever comes of them together.
    changes: RedirectChanges,
}

#[derive(Debug)]
enum Change<'a> {
    /// The link was created: its whole row is known.
    Put(RedirectRow<'a>),
    /// It was created before.
    Update(Update<'a>),
}

#[derive(Debug)]
struct RedirectRow<'a> {
    link_id: Uuid,
    account_id: Uuid,
    destination_url: &'a str,
    state: State,
}

/// What is `None` stays as it is.
#[derive(Debug, Default)]
struct Update<'a> {
    destination_url: Option<&'a str>,
    state: Option<State>,
}

/// What the short host makes of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    Disabled,
    /// For ever.
    Deleted,
}

impl State {
    /// The name in SQL.
    const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Deleted => "deleted",
        }
    }
}

impl<'a> Change<'a> {
    /// The two, one after the other: first this one, then an update.
    fn then_update(&mut self, later: &Update<'a>) {
        match self {
            Self::Put(RedirectRow {
                state: State::Deleted,
                ..
            })
            | Self::Update(Update {
                state: Some(State::Deleted),
                ..
            }) => {}
            Self::Put(row) => {
                row.destination_url = later.destination_url.unwrap_or(row.destination_url);
                row.state = later.state.unwrap_or(row.state);
            }
            Self::Update(earlier) => {
                earlier.destination_url = later.destination_url.or(earlier.destination_url);
                earlier.state = later.state.or(earlier.state);
            }
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
                let row = RedirectRow {
                    link_id: created.link_id.uuid(),
                    account_id: created.account_id.uuid(),
                    destination_url: &created.destination_url,
                    state: State::Active,
                };
                let key = (generation, fold(&created.slug));
                self.redirects.insert(key, Change::Put(row));
            }
            Event::Link(LinkEvent::DestinationChanged(changed)) => {
                let update = Update {
                    destination_url: Some(&changed.destination_url),
                    state: None,
                };
                self.update_of(generation, slugs.of(changed.link_id), update);
            }
            Event::Link(LinkEvent::Disabled(disabled)) => {
                let slug = slugs.of(disabled.link_id);
                self.update_of(generation, slug, State::Disabled.into());
            }
            Event::Link(LinkEvent::Enabled(enabled)) => {
                let slug = slugs.of(enabled.link_id);
                self.update_of(generation, slug, State::Active.into());
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
            // Who follows a link is not told what it cost.
            Event::Credits(
                CreditsEvent::Granted(_) | CreditsEvent::Adjusted(_) | CreditsEvent::Charged(_),
            ) => {}
        }
    }

    fn stop(&mut self, key: (i32, Uuid), is_stopped: bool) {
        self.changes.add_account(key.1);
        self.stopped_accounts.set(key, is_stopped);
    }

    /// A link without a slug has no row: its creation is left out.
    fn update_of(&mut self, generation: i32, slug: Option<&str>, update: Update<'a>) {
        if let Some(slug) = slug {
            self.update((generation, slug.to_owned()), update);
        }
    }

    fn update(&mut self, key: Key, update: Update<'a>) {
        self.changes.add_slug(&key.1);
        match self.redirects.entry(key) {
            Entry::Occupied(mut earlier) => earlier.get_mut().then_update(&update),
            Entry::Vacant(place) => {
                place.insert(Change::Update(update));
            }
        }
    }

    pub(crate) fn changes(&self) -> &RedirectChanges {
        &self.changes
    }

    pub(crate) fn into_changes(self) -> RedirectChanges {
        self.changes
    }

    pub(crate) async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        let (mut puts, mut updates) = (Vec::new(), Vec::new());
        for (key, change) in &self.redirects {
            match change {
                Change::Put(row) => puts.push((key, row)),
                Change::Update(update) => updates.push((key, update)),
            }
        }
        put_in_tx(tx, &puts, creation).await?;
        update_in_tx(tx, &updates).await?;
        self.stopped_accounts.write_in_tx(tx).await
    }
}

impl From<State> for Update<'_> {
    fn from(state: State) -> Self {
        Self {
            destination_url: None,
            state: Some(state),
        }
    }
}

async fn put_in_tx(
    tx: &mut PgConnection,
    rows: &[(&Key, &RedirectRow<'_>)],
    creation: Creation,
) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, _)| key.0).collect();
    let slugs_folded: Vec<&str> = rows.iter().map(|(key, _)| key.1.as_str()).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(_, row)| row.link_id).collect();
    let account_ids: Vec<Uuid> = rows.iter().map(|(_, row)| row.account_id).collect();
    let destination_urls: Vec<&str> = rows.iter().map(|(_, row)| row.destination_url).collect();
    let states: Vec<&str> = rows.iter().map(|(_, row)| row.state.name()).collect();
    macro_rules! put {
        ($on_conflict:literal) => {
            sqlx::query!(
                "
                INSERT INTO read_model.redirects
                    (generation, slug_folded, link_id, account_id, destination_url, state)
                SELECT * FROM unnest($1::integer[], $2::text[], $3::uuid[], $4::uuid[],
                                     $5::text[], $6::text[])
                "
                    + $on_conflict,
                &generations,
                &slugs_folded as &[&str],
                &link_ids,
                &account_ids,
                &destination_urls as &[&str],
                &states as &[&str]
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
                 destination_url = excluded.destination_url, state = excluded.state"
        ),
    };
    Ok(())
}

async fn update_in_tx(tx: &mut PgConnection, rows: &[(&Key, &Update<'_>)]) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, _)| key.0).collect();
    let slugs_folded: Vec<&str> = rows.iter().map(|(key, _)| key.1.as_str()).collect();
    let destination_urls: Vec<Option<&str>> = rows
        .iter()
        .map(|(_, update)| update.destination_url)
        .collect();
    let states: Vec<Option<&str>> = rows
        .iter()
        .map(|(_, update)| update.state.map(State::name))
        .collect();
    sqlx::query!(
        "
        UPDATE read_model.redirects AS r
        SET destination_url = coalesce(later.destination_url, r.destination_url),
            state = coalesce(later.state, r.state)
        FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[])
            AS later (generation, slug_folded, destination_url, state)
        WHERE r.generation = later.generation AND r.slug_folded = later.slug_folded
          AND r.state <> 'deleted'
        ",
        &generations,
        &slugs_folded as &[&str],
        &destination_urls as &[Option<&str>],
        &states as &[Option<&str>]
    )
    .execute(tx)
    .await?;
    Ok(())
}
