//! Projection `redirects`: table `read_model.redirects`.

use std::collections::BTreeMap;

use linkledger_core::{credits::CreditsEvent, event::Event, link::LinkEvent};
use sqlx::PgConnection;
use uuid::Uuid;

use super::DecodedEvent;

/// Generation, folded slug.
type Key = (i32, String);

/// Rows of the table, by its key; of several for one slug the last one counts.
#[derive(Debug, Default)]
pub struct RedirectRows<'a>(BTreeMap<Key, RedirectRow<'a>>);

#[derive(Debug)]
struct RedirectRow<'a> {
    link_id: Uuid,
    account_id: Uuid,
    destination_url: &'a str,
}

impl<'a> RedirectRows<'a> {
    pub(super) fn project(&mut self, generation: i32, event: &'a DecodedEvent) {
        match &event.event {
            Event::Link(LinkEvent::Created(created)) => {
                let row = RedirectRow {
                    link_id: created.link_id.uuid(),
                    account_id: created.account_id.uuid(),
                    destination_url: &created.destination_url,
                };
                // Folded without `Slug`: a rule tightened since must not undo what has happened.
                let key = (generation, created.slug.to_ascii_lowercase());
                self.0.insert(key, row);
            }
            // Who follows a link is not told what it cost.
            Event::Credits(CreditsEvent::Granted(_) | CreditsEvent::Charged(_)) => {}
        }
    }

    pub(super) async fn write_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let generations: Vec<i32> = self.0.keys().map(|key| key.0).collect();
        let slugs_folded: Vec<&str> = self.0.keys().map(|key| key.1.as_str()).collect();
        let link_ids: Vec<Uuid> = self.0.values().map(|row| row.link_id).collect();
        let account_ids: Vec<Uuid> = self.0.values().map(|row| row.account_id).collect();
        let destination_urls: Vec<&str> = self.0.values().map(|row| row.destination_url).collect();
        sqlx::query!(
            "
            INSERT INTO read_model.redirects
                (generation, slug_folded, link_id, account_id, destination_url)
            SELECT * FROM unnest($1::integer[], $2::text[], $3::uuid[], $4::uuid[], $5::text[])
            ON CONFLICT (generation, slug_folded) DO UPDATE
            SET link_id = excluded.link_id, account_id = excluded.account_id,
                destination_url = excluded.destination_url
            ",
            &generations,
            &slugs_folded as &[&str],
            &link_ids,
            &account_ids,
            &destination_urls as &[&str]
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}
