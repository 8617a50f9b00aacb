use linkledger_core::{
    api_key::{ApiKey, KeyState, Scope},
    clock::{Clock as _, SystemClock, new_uuid},
    id::KeyId,
    shard::Shard,
};
use linkledger_event_store::{
    api_keys, log,
    transaction::{PoolTransaction, database_now},
};
use linkledger_testing::{self as testing, TestDatabase};

#[tokio::test]
async fn key_is_read_as_it_was_written() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = testing::account(pool, 0).await;
    let now = SystemClock.now();
    let mut key = KeyState {
        account_id,
        key_id: KeyId::from_uuid(new_uuid(now)),
        name: "shop".to_owned(),
        scopes: Scope::names(&[Scope::LinksRead]),
        created_at: now,
        expires_at: Some(now + time::Duration::days(30)),
        revoked_at: None,
    };
    let secret = ApiKey::generate();
    testing::key_row(pool, &key, &secret).await;

    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    key.name = "web shop".to_owned();
    key.scopes.push("link:later.read".to_owned());
    key.expires_at = None;
    key.revoked_at = Some(database_now(&mut tx).await.unwrap());
    api_keys::update_in_tx(&mut tx, &key).await.unwrap();
    let read = api_keys::get_in_tx(&mut tx, key.key_id).await;
    assert_eq!(read.unwrap(), Some(key.clone()));
    tx.commit().await.unwrap();
    let found = api_keys::find(pool, &secret).await.unwrap().unwrap();
    assert!(found.is_revoked);
    assert_eq!(found.scopes, [Scope::LinksRead]);
    let owner = api_keys::get(pool, key.key_id).await.unwrap();
    assert_eq!(owner.unwrap().account_id, account_id);
    let unknown = KeyId::from_uuid(new_uuid(now));
    assert!(api_keys::get(pool, unknown).await.unwrap().is_none());

    let mut keys = Vec::new();
    let heads = api_keys::read_each(pool, |key| keys.push(key)).await;
    assert_eq!(keys, [key]);
    let shard = Shard::of(account_id).index();
    assert_eq!(
        heads.unwrap()[shard],
        log::heads(pool).await.unwrap()[shard]
    );
}
