//! Projection `credits`: tables `read_model.credit_balances` and `read_model.credit_entries`.

use std::collections::BTreeMap;

use linkledger_core::credits::CreditsEvent;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::read_models::{Creation, DecodedEvent, EventContent};

/// Rows of both tables, by key.
#[derive(Debug, Default)]
pub struct CreditRows<'a> {
    /// Balance and version by generation and account: the last event of the account counts.
    balances: BTreeMap<(i32, Uuid), (i64, i64)>,
    /// Entries by generation, account and version.
    entries: BTreeMap<(i32, Uuid, i64), Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    event_id: Uuid,
    balance_after: i64,
    created_at: OffsetDateTime,
    members: EntryMembers<'a>,
}

/// Columns of an entry that depend on its type.
#[derive(Debug)]
struct EntryMembers<'a> {
    kind: &'static str,
    amount: i64,
    link_id: Option<Uuid>,
    description: Option<&'a str>,
    refunds: Option<Uuid>,
}

impl<'a> EntryMembers<'a> {
    fn of(event: &'a CreditsEvent) -> Self {
        let plain = |kind, amount| Self {
            kind,
            amount,
            link_id: None,
            description: None,
            refunds: None,
        };
        match event {
            CreditsEvent::Granted(granted) => Self {
                description: granted.description.as_deref(),
                ..plain("grant", granted.amount)
            },
            CreditsEvent::Adjusted(adjusted) => Self {
                description: adjusted.description.as_deref(),
                ..plain("adjustment", adjusted.amount)
            },
            CreditsEvent::Charged(charged) => Self {
                link_id: Some(charged.link_id.uuid()),
                ..plain("charge", -charged.amount)
            },
            CreditsEvent::Refunded(refunded) => Self {
                link_id: Some(refunded.link_id.uuid()),
                refunds: Some(refunded.refunds.uuid()),
                ..plain("refund", refunded.amount)
            },
            CreditsEvent::Revoked(revoked) => plain("revocation", -revoked.amount),
        }
    }
}

impl<'a> CreditRows<'a> {
    pub(crate) fn project(&mut self, generation: i32, event: &'a DecodedEvent) {
        let (recorded, credits) = match &event.content {
            EventContent::Credits(credits) => (&event.recorded, credits),
            // The price of a link is an event of its own. Events of the account, its keys and its webhooks,
            // and observations, take a version of the account's stream, which the ledger skips.
            EventContent::Link(_)
            | EventContent::Account(_)
            | EventContent::ApiKey(_)
            | EventContent::Webhook(_)
            | EventContent::Observation(_) => return,
        };
        let balance_after = credits.balance_after();
        let (account_id, version) = (recorded.account_id.uuid(), recorded.version);
        let entry = Entry {
            event_id: recorded.event_id.uuid(),
            balance_after,
            created_at: recorded.recorded_at,
            members: EntryMembers::of(credits),
        };
        let balance = (balance_after, version);
        self.balances.insert((generation, account_id), balance);
        self.entries
            .insert((generation, account_id, version), entry);
    }

    pub(crate) async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.write_balances_in_tx(tx).await?;
        self.write_entries_in_tx(tx, creation).await
    }

    async fn write_balances_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        let generations: Vec<i32> = self.balances.keys().map(|key| key.0).collect();
        let account_ids: Vec<Uuid> = self.balances.keys().map(|key| key.1).collect();
        let balances: Vec<i64> = self.balances.values().map(|row| row.0).collect();
        let versions: Vec<i64> = self.balances.values().map(|row| row.1).collect();
        sqlx::query!(
            "
            INSERT INTO read_model.credit_balances (generation, account_id, balance, version)
            SELECT * FROM unnest($1::integer[], $2::uuid[], $3::bigint[], $4::bigint[])
            ON CONFLICT (generation, account_id) DO UPDATE
            SET balance = excluded.balance, version = excluded.version
            ",
            &generations,
            &account_ids,
            &balances,
            &versions
        )
        .execute(tx)
        .await?;
        Ok(())
    }

    async fn write_entries_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        let (keys, rows) = (|| self.entries.keys(), || self.entries.values());
        let members = || rows().map(|row| &row.members);
        let generations: Vec<i32> = keys().map(|key| key.0).collect();
        let account_ids: Vec<Uuid> = keys().map(|key| key.1).collect();
        let versions: Vec<i64> = keys().map(|key| key.2).collect();
        let entry_ids: Vec<Uuid> = rows().map(|row| row.event_id).collect();
        let types: Vec<&str> = members().map(|it| it.kind).collect();
        let amounts: Vec<i64> = members().map(|it| it.amount).collect();
        let balances_after: Vec<i64> = rows().map(|row| row.balance_after).collect();
        let link_ids: Vec<Option<Uuid>> = members().map(|it| it.link_id).collect();
        let descriptions: Vec<Option<&str>> = members().map(|it| it.description).collect();
        let refunds: Vec<Option<Uuid>> = members().map(|it| it.refunds).collect();
        let created_at: Vec<OffsetDateTime> = rows().map(|row| row.created_at).collect();
        macro_rules! put {
            ($on_conflict:literal) => {
                sqlx::query!(
                    "
                    INSERT INTO read_model.credit_entries
                        (generation, account_id, version, entry_id, type, amount, balance_after,
                         link_id, description, refunds, created_at)
                    SELECT * FROM unnest($1::integer[], $2::uuid[], $3::bigint[], $4::uuid[],
                                         $5::text[], $6::bigint[], $7::bigint[], $8::uuid[],
                                         $9::text[], $10::uuid[], $11::timestamptz[])
                    " + $on_conflict,
                    &generations,
                    &account_ids,
                    &versions,
                    &entry_ids,
                    &types as &[&str],
                    &amounts,
                    &balances_after,
                    &link_ids as &[Option<Uuid>],
                    &descriptions as &[Option<&str>],
                    &refunds as &[Option<Uuid>],
                    &created_at
                )
                .execute(tx)
                .await?
            };
        }
        match creation {
            Creation::Insert => put!(""),
            Creation::Put => put!(
                "ON CONFLICT (generation, account_id, version) DO UPDATE
                 SET entry_id = excluded.entry_id, type = excluded.type, amount = excluded.amount,
                     balance_after = excluded.balance_after, link_id = excluded.link_id,
                     description = excluded.description, refunds = excluded.refunds,
                     created_at = excluded.created_at"
            ),
        };
        Ok(())
    }
}
