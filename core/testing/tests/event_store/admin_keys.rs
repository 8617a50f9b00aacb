use linkledger_core::{
    api_key::{AdminKey, AdminScope},
    clock::{Clock as _, SystemClock, new_uuid},
    id::AdminKeyId,
};
use linkledger_event_store::admin_keys::{self, NewAdminKey};
use linkledger_testing::TestDatabase;

#[tokio::test]
async fn admin_key_is_valid_until_its_first_revocation() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (secret, now) = (AdminKey::generate(), SystemClock.now());
    let key = NewAdminKey {
        key_id: AdminKeyId::from_uuid(new_uuid(now)),
        secret: &secret,
        name: "billing",
        scopes: &[AdminScope::Read, AdminScope::Credits],
        created_at: now,
        created_by: "ada",
        expires_at: None,
    };
    admin_keys::insert(pool, &key).await.unwrap();
    let found = admin_keys::find(pool, &secret).await.unwrap().unwrap();
    assert_eq!((found.key_id, found.is_revoked), (key.key_id, false));
    assert_eq!(found.scopes, key.scopes);
    let unknown = admin_keys::find(pool, &AdminKey::generate()).await;
    assert_eq!(unknown.unwrap(), None);

    let revoke = async |by| admin_keys::revoke(pool, key.key_id, by).await.unwrap();
    let revoked_at = revoke("eve").await;
    assert!(revoked_at.is_some());
    assert_eq!(revoke("bob").await, revoked_at);
    let found = admin_keys::find(pool, &secret).await.unwrap().unwrap();
    assert!(found.is_revoked);
    let listed = admin_keys::list(pool).await.unwrap().remove(0);
    assert_eq!(listed.prefix, secret.shown_prefix());
    assert_eq!(listed.scopes, ["admin:read", "admin:credits"]);
    assert_eq!(listed.revoked_by.as_deref(), Some("eve"));
    let other = AdminKeyId::from_uuid(new_uuid(now));
    let revoked = admin_keys::revoke(pool, other, "eve").await;
    assert_eq!(revoked.unwrap(), None);
}
