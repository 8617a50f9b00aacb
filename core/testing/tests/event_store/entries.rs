use std::collections::BTreeSet;

use linkledger_core::{
    credits::CreditsEvent,
    event::Event,
    id::{AccountId, EntryId, LinkId},
    shard::Shard,
};
use linkledger_event_store::log::{
    self, charge_of_link, find_entry, is_reversed_in_tx, reversals_of,
};
use linkledger_testing::{
    self as testing, TestDatabase,
    events::{granted, refunded, revoked},
};
use sqlx::PgPool;

use crate::violated;

/// Returns the entry at a position of the account's shard.
async fn entry_at(pool: &PgPool, account_id: AccountId, position: i64) -> EntryId {
    let events = log::read_at(pool, Shard::of(account_id), &[position]).await;
    EntryId::from_uuid(events.unwrap()[0].event_id.uuid())
}

/// Returns an account with a grant and the charge of a link.
async fn account_with_entries(pool: &PgPool) -> (AccountId, [(EntryId, CreditsEvent); 2]) {
    let account_id = testing::account(pool, 0).await;
    let grant = granted(account_id, 10, 10);
    let position = testing::append_events(pool, account_id, std::slice::from_ref(&grant)).await;
    let grant_id = entry_at(pool, account_id, position[0]).await;
    let links = [("spring", "https://example.com/")];
    let link = testing::append_links(pool, account_id, &links).await;
    let charge_id = entry_at(pool, account_id, link[0].position).await;
    let Event::Credits(grant) = grant else {
        panic!("{grant:?}");
    };
    let charge = CreditsEvent::Charged(link[0].charge.clone());
    (account_id, [(grant_id, grant), (charge_id, charge)])
}

#[tokio::test]
async fn entry_is_found_in_its_account_only() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (account_id, entries) = account_with_entries(pool).await;
    let neighbour = testing::account_of(pool, Shard::of(account_id), 0).await;
    // Most entries are in summarized ranges of the table, the newest are not.
    for _ in 0..2 {
        for (entry_id, event) in &entries {
            let found = find_entry(pool, account_id, *entry_id).await;
            let found = found.unwrap().unwrap();
            assert_eq!(found.decode().unwrap(), Event::Credits(event.clone()));
            let found = find_entry(pool, neighbour, *entry_id).await;
            assert_eq!(found.unwrap(), None);
        }
        let unknown = EntryId::from_uuid(account_id.uuid());
        let found = find_entry(pool, account_id, unknown).await;
        assert_eq!(found.unwrap(), None);
        let vacuum = sqlx::query("VACUUM event_store.events");
        vacuum.execute(pool).await.unwrap();
    }
}

#[tokio::test]
async fn charge_of_link_is_found_in_its_account_only() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (account_id, [_, (charge_id, charge)]) = account_with_entries(pool).await;
    let CreditsEvent::Charged(charged) = &charge else {
        panic!("{charge:?}");
    };
    let found = charge_of_link(pool, account_id, charged.link_id).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.event_id.uuid(), charge_id.uuid());
    assert_eq!(found.decode().unwrap(), Event::Credits(charge.clone()));
    let neighbour = testing::account_of(pool, Shard::of(account_id), 0).await;
    for (account_id, link_id) in [
        (neighbour, charged.link_id),
        (account_id, LinkId::from_uuid(charge_id.uuid())),
        // The stream of an account is no link.
        (account_id, LinkId::from_uuid(account_id.uuid())),
    ] {
        let found = charge_of_link(pool, account_id, link_id).await;
        assert_eq!(found.unwrap(), None);
    }
}

#[tokio::test]
async fn entry_is_reversed_once() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (account_id, entries) = account_with_entries(pool).await;
    let [
        (grant_id, CreditsEvent::Granted(grant)),
        (charge_id, CreditsEvent::Charged(charge)),
    ] = entries
    else {
        panic!("a grant and a charge are wanted");
    };
    let reversed_in_list = async || {
        let reversals = reversals_of(pool, account_id, &[grant_id, charge_id]).await;
        let reversals = reversals.unwrap().into_iter();
        let reversed = reversals.map(|event| {
            let Event::Credits(event) = event.decode().unwrap() else {
                panic!("{event:?}");
            };
            event.reversed_entry().unwrap()
        });
        reversed.collect::<BTreeSet<EntryId>>()
    };
    let are_reversed = async || {
        let mut session = pool.acquire().await.unwrap();
        let mut are_reversed = Vec::new();
        for entry_id in [grant_id, charge_id] {
            let is_reversed = is_reversed_in_tx(&mut session, account_id, entry_id).await;
            are_reversed.push(is_reversed.unwrap());
        }
        are_reversed
    };
    assert_eq!(are_reversed().await, [false, false]);
    assert_eq!(reversed_in_list().await, BTreeSet::new());
    let refund = refunded((charge_id, &charge), 9);
    testing::append_events(pool, account_id, &[refund]).await;
    assert_eq!(are_reversed().await, [false, true]);
    assert_eq!(reversed_in_list().await, BTreeSet::from([charge_id]));
    let revocation = revoked((grant_id, &grant), 10);
    testing::append_events(pool, account_id, &[revocation]).await;
    assert_eq!(are_reversed().await, [true, true]);
    let both = BTreeSet::from([grant_id, charge_id]);
    assert_eq!(reversed_in_list().await, both);
    let neighbour = testing::account_of(pool, Shard::of(account_id), 0).await;
    let of_neighbour = reversals_of(pool, neighbour, &[grant_id, charge_id]).await;
    assert!(of_neighbour.unwrap().is_empty());

    let mut reversed = log::reversed_entries(pool, Shard::of(account_id))
        .await
        .unwrap();
    reversed.sort();
    let mut expected = [grant_id, charge_id];
    expected.sort();
    assert_eq!(reversed, expected);
    let again = "INSERT INTO event_store.events
                     (shard, position, stream_id, version, account_id, event_id, type,
                      schema_version, payload, metadata, recorded_at)
                 SELECT shard, position + 100, stream_id, version + 100, account_id,
                        gen_random_uuid(), type, schema_version, payload, metadata, recorded_at
                 FROM event_store.events WHERE type = $1";
    for event_type in ["CreditsRefunded", "CreditsRevoked"] {
        let again = sqlx::query(again).bind(event_type).execute(pool).await;
        assert_eq!(violated(again), "events_reversal_unique");
    }
}
