//! Projection `links`: table `read_model.links`.

use std::collections::BTreeMap;

use linkledger_core::{credits::CreditsEvent, event::Event, link::LinkEvent};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::DecodedEvent;

/// Generation, account, link.
type Key = (i32, Uuid, Uuid);

/// Rows of the table, by its key; of several for one link the last one counts.
#[derive(Debug, Default)]
pub struct LinkRows<'a>(BTreeMap<Key, LinkRow<'a>>);

#[derive(Debug)]
struct LinkRow<'a> {
    slug: &'a str,
    destination_url: &'a str,
    version: i64,
    created_at: OffsetDateTime,
}

impl<'a> LinkRows<'a> {
    pub(super) fn project(&mut self, generation: i32, event: &'a DecodedEvent) {
        let recorded = &event.recorded;
        match &event.event {
            Event::Link(LinkEvent::Created(created)) => {
                let key = (
                    generation,
                    created.account_id.uuid(),
                    created.link_id.uuid(),
                );
                let row = LinkRow {
                    slug: &created.slug,
                    destination_url: &created.destination_url,
                    version: recorded.version,
                    created_at: recorded.recorded_at,
                };
                self.0.insert(key, row);
            }
            // A price is no part of a link.
            Event::Credits(CreditsEvent::Granted(_) | CreditsEvent::Charged(_)) => {}
        }
    }

    pub(super) async fn write_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let generations: Vec<i32> = self.0.keys().map(|key| key.0).collect();
        let account_ids: Vec<Uuid> = self.0.keys().map(|key| key.1).collect();
        let link_ids: Vec<Uuid> = self.0.keys().map(|key| key.2).collect();
        let slugs: Vec<&str> = self.0.values().map(|row| row.slug).collect();
        let destination_urls: Vec<&str> = self.0.values().map(|row| row.destination_url).collect();
        let versions: Vec<i64> = self.0.values().map(|row| row.version).collect();
        let created_at: Vec<OffsetDateTime> = self.0.values().map(|row| row.created_at).collect();
        sqlx::query!(
            "
            INSERT INTO read_model.links
                (generation, account_id, link_id, slug, destination_url, version, created_at)
            SELECT * FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[], $5::text[],
                                 $6::bigint[], $7::timestamptz[])
            ON CONFLICT (generation, account_id, link_id) DO UPDATE
            SET slug = excluded.slug, destination_url = excluded.destination_url,
                version = excluded.version, created_at = excluded.created_at
            ",
            &generations,
            &account_ids,
            &link_ids,
            &slugs as &[&str],
            &destination_urls as &[&str],
            &versions,
            &created_at
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}
