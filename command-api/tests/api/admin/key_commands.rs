//! API keys: `key issue|change|rotate|revoke` and their functions.

use futures::future::join_all;
use linkledger_command_api::admin::{
    AdminError, AdminRefusal, AdminResult, Done,
    key::{self, IssueKey, NewSecret, RotatedKey},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    id::{AccountId, KeyId},
};
use linkledger_event_store::api_keys;
use linkledger_testing::TestDatabase;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::{new_account, payloads, request, text};
use crate::cli::{error, json as run_json, problem, run};

const READ: &str = "link:links.read";

/// Returns the command that issues a key, with further arguments.
fn issue<'a>(account: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [
        &["key", "issue", "--account", account, "--scope", READ],
        further,
    ]
    .concat()
}

/// Issues a key by the function of the command.
async fn issued(pool: &PgPool, account_id: AccountId) -> KeyId {
    let wanted = IssueKey {
        account: account_id,
        scopes: vec![Scope::LinksRead],
        name: "shop".to_owned(),
        expires_at: None,
    };
    let secret = NewSecret::Generated(ApiKey::generate());
    key::issue(&request(pool), &wanted, &secret)
        .await
        .unwrap()
        .value
        .id
}

async fn rotate(pool: &PgPool, key: KeyId, once: Option<&str>) -> AdminResult<Done<RotatedKey>> {
    let mut request = request(pool);
    request.idempotency_key = once.map(str::to_owned);
    let secret = NewSecret::Generated(ApiKey::generate());
    key::rotate(&request, key, 3_600, &secret).await
}

async fn stored(pool: &PgPool, key: &ApiKey) -> api_keys::StoredKey {
    api_keys::find(pool, key)
        .await
        .unwrap()
        .expect("the key is stored")
}

/// Returns everything that the log has, as text.
async fn whole_log(pool: &PgPool) -> String {
    let rows: Vec<String> = sqlx::query_scalar("SELECT e::text FROM event_store.events AS e")
        .fetch_all(pool)
        .await
        .unwrap();
    rows.join("\n")
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

#[tokio::test]
async fn secret_is_in_first_answer_only() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 0).await.to_string();
    let once = issue(
        &account,
        &["--name", "shop", "--idempotency-key", "shop-key"],
    );
    let first = run_json(url, &once);
    let secret = ApiKey::parse(text(&first["secret"])).unwrap();
    let expected = json!({
        "id": first["id"], "account_id": account, "name": "shop", "prefix": secret.shown_prefix(),
        "scopes": [READ], "created_at": first["created_at"], "secret": secret.reveal(),
        "changed": true, "replayed": false, "idempotency_key": "shop-key",
    });
    assert_eq!(first, expected);
    let mut replayed = expected;
    let replayed = replayed.as_object_mut().unwrap();
    replayed.remove("secret");
    replayed.insert("changed".to_owned(), json!(false));
    replayed.insert("replayed".to_owned(), json!(true));
    assert_eq!(run_json(url, &once).as_object(), Some(&*replayed));
    let told = run(url, &once).stdout;
    let told = String::from_utf8(told).unwrap();
    assert!(
        told.contains("is not stored") && !told.contains(secret.reveal()),
        "{told}"
    );

    let other = issue(
        &account,
        &["--name", "other", "--idempotency-key", "shop-key"],
    );
    assert_eq!(problem(url, &other, 5)["code"], "idempotency_key_reused");
    assert_eq!(payloads(pool, "ApiKeyIssued").await.len(), 1);
    assert_eq!(stored(pool, &secret).await.scopes, [Scope::LinksRead]);
    let log = whole_log(pool).await;
    assert!(log.contains(text(&first["id"])));
    assert!(!log.contains(secret.reveal()));
    assert!(!log.contains(&hexadecimal(&secret.sha256())));
}

#[tokio::test]
async fn key_may_have_a_secret_of_the_caller() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 0).await.to_string();
    let (one, other) = (ApiKey::generate(), ApiKey::generate());
    let [one_hash, other_hash] = [&one, &other].map(|key| hexadecimal(&key.sha256()));
    let given = |hash| {
        issue(
            &account,
            &["--sha256", hash, "--idempotency-key", "shop-key"],
        )
    };
    let issued = run_json(url, &given(&one_hash));
    assert_eq!(
        (&issued["secret"], &issued["prefix"]),
        (&Value::Null, &json!(""))
    );
    assert_eq!(run_json(url, &given(&one_hash))["replayed"], true);
    // Another hash is another request: the caller must not believe that its secret is valid.
    assert_eq!(
        problem(url, &given(&other_hash), 5)["code"],
        "idempotency_key_reused"
    );
    assert_eq!(
        stored(pool, &one).await.key_id.to_string(),
        text(&issued["id"])
    );

    let again = issue(&account, &["--sha256", &one_hash]);
    let expected = "error: a key with this secret was issued before; make a new secret\n";
    assert_eq!(error(url, &again, 5), expected);
    let prefix = ["--sha256", &other_hash, "--prefix", other.shown_prefix()];
    let rotate = [&["key", "rotate", text(&issued["id"])], &prefix[..]].concat();
    let rotated = run_json(url, &rotate);
    assert_eq!(
        (&rotated["secret"], &rotated["prefix"]),
        (&Value::Null, &json!(other.shown_prefix()))
    );
    assert_eq!(
        stored(pool, &other).await.key_id.to_string(),
        text(&rotated["id"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_rotations_of_one_key_make_one_key() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = new_account(pool, 0).await;
    for _ in 0..3 {
        let key_id = issued(pool, account_id).await;
        let before = api_keys::list(pool, account_id).await.unwrap().len();
        let rotations = join_all((0..6).map(|_| rotate(pool, key_id, None))).await;
        let mut rotated = 0;
        for outcome in rotations {
            match outcome {
                Ok(done) => {
                    assert_eq!(done.value.replaces, key_id);
                    rotated += 1;
                }
                Err(AdminError::Refused(AdminRefusal::KeyNotValid {
                    key_id: refused, ..
                })) => {
                    assert_eq!(refused, key_id);
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(rotated, 1);
        let after = api_keys::list(pool, account_id).await.unwrap().len();
        assert_eq!(after, before + 1);
    }
    assert_eq!(payloads(pool, "ApiKeyRotated").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_rotations_with_one_key_have_one_answer() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let key_id = issued(pool, new_account(pool, 0).await).await;
    let rotations = (0..6).map(|_| rotate(pool, key_id, Some("october")));
    let rotations = join_all(rotations).await.into_iter().map(Result::unwrap);
    let (replayed, first): (Vec<_>, Vec<_>) = rotations.partition(|done| done.replayed);
    assert_eq!((first.len(), replayed.len()), (1, 5));
    assert!(first[0].value.key.secret.is_some());
    let mut without_secret = first[0].value.clone();
    without_secret.key.secret = None;
    for again in replayed {
        assert_eq!(again.value, without_secret);
        assert_eq!(again.position, first[0].position);
    }
    let refused = rotate(pool, key_id, Some("november")).await.unwrap_err();
    assert_eq!(refused.exit_code(), 5, "{refused:?}");
}

#[tokio::test]
async fn rotated_keys_overlap_but_revoked_key_ends() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 0).await.to_string();
    let old = run_json(
        url,
        &issue(&account, &["--expires-at", "2999-01-01T00:00:00Z"]),
    );
    let old_id = text(&old["id"]);
    let rotated = run_json(url, &["key", "rotate", old_id, "--overlap-seconds", "3600"]);
    let new = ApiKey::parse(text(&rotated["secret"])).unwrap();
    for name in ["account_id", "name", "scopes", "expires_at"] {
        assert_eq!(rotated[name], old[name], "{name}");
    }
    assert_eq!(rotated["replaces"], old["id"]);
    let old_key = ApiKey::parse(text(&old["secret"])).unwrap();
    let ends = stored(pool, &old_key).await.revoked_at.unwrap();
    assert!(!stored(pool, &old_key).await.is_revoked);
    let recorded = &payloads(pool, "ApiKeyRotated").await[0];
    let expected = json!({
        "account_id": account, "key_id": old["id"], "new_key_id": rotated["id"],
        "overlap_until": rotated["overlap_until"],
    });
    assert_eq!(recorded, &expected);
    let again = problem(url, &["key", "rotate", old_id], 5);
    assert_eq!(again["code"], "key_not_valid");

    // A later revocation never replaces an earlier one.
    assert_eq!(run_json(url, &["key", "revoke", old_id])["changed"], true);
    let revoked = stored(pool, &old_key).await;
    assert!(revoked.is_revoked && revoked.revoked_at.unwrap() < ends);
    assert_eq!(run_json(url, &["key", "revoke", old_id])["changed"], false);
    assert_eq!(stored(pool, &old_key).await.revoked_at, revoked.revoked_at);
    assert_eq!(payloads(pool, "ApiKeyRevoked").await.len(), 1);
    assert!(!stored(pool, &new).await.is_revoked);

    sqlx::query("UPDATE event_store.api_keys SET last_used_at = '2026-11-20T09:51:00Z'")
        .execute(pool)
        .await
        .unwrap();
    let list = ["key", "list", "--account", &account];
    let listed = run_json(url, &list);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0]["last_used_at"], "2026-11-20T09:51:00.000Z");
    assert!(!listed.to_string().contains(new.reveal()));
    let table = String::from_utf8(run(url, &list).stdout).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("LAST USED") && table.contains("2026-11-20T09:51:00.000Z"));
    assert!(table.contains(new.shown_prefix()) && !table.contains(new.reveal()));
}

#[tokio::test]
async fn valid_key_is_changed() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 0).await.to_string();
    let issued = run_json(url, &issue(&account, &[]));
    let key = text(&issued["id"]);
    let change = |further: &[&str]| run_json(url, &[&["key", "change", key], further].concat());
    let add = ["--add-scope", "link:clicks.read,link:links.read"];
    let both = json!([READ, "link:clicks.read"]);
    assert_eq!(change(&add)["scopes"], both);
    let again = change(&add);
    assert_eq!(
        (&again["scopes"], &again["changed"]),
        (&both, &json!(false))
    );
    let replaced = ["--scope", "link:credits.read", "--name", "shop"];
    let replaced = change(&[&replaced[..], &["--expires-at", "2999-01-01T00:00:00Z"]].concat());
    assert_eq!(replaced["scopes"], json!(["link:credits.read"]));
    assert_eq!(replaced["expires_at"], "2999-01-01T00:00:00.000Z");
    assert_eq!(change(&["--no-expires-at"])["expires_at"], Value::Null);
    let secret = ApiKey::parse(text(&issued["secret"])).unwrap();
    let stored = stored(pool, &secret).await;
    assert_eq!(
        (stored.scopes, stored.expires_at),
        (vec![Scope::CreditsRead], None)
    );

    let recorded = payloads(pool, "ApiKeyChanged").await;
    assert_eq!(recorded.len(), 3);
    let expected = json!({
        "name": { "from": "API key", "to": "shop" },
        "scopes": { "from": both, "to": ["link:credits.read"] },
        "expires_at": { "to": "2999-01-01T00:00:00.000Z" },
    });
    assert_eq!(recorded[1]["changes"], expected);
}

#[tokio::test]
async fn key_that_has_ended_is_neither_changed_nor_rotated() {
    let database = TestDatabase::create().await;
    let (url, pool) = (database.url(), database.pool());
    let account = new_account(pool, 0).await.to_string();
    let past = ["--expires-at", "2026-01-01T00:00:00Z"];
    let expected = "error: the expiry is in the past; give an instant in the future\n";
    assert_eq!(error(url, &issue(&account, &past), 6), expected);
    let issued = run_json(url, &issue(&account, &[]));
    let key = text(&issued["id"]);
    let change = [&["key", "change", key], &past[..]].concat();
    assert_eq!(problem(url, &change, 6)["code"], "validation_failed");

    let refused = |because: &str| {
        let expected = format!("key {key} {because}");
        for arguments in [
            &["key", "rotate", key][..],
            &["key", "change", key, "--add-scope", "link:clicks.read"],
        ] {
            let refused = problem(url, arguments, 5);
            assert_eq!(refused["code"], "key_not_valid");
            let detail = text(&refused["detail"]);
            assert!(detail.starts_with(&expected), "{detail}");
            assert!(detail.ends_with("; issue a new key instead"), "{detail}");
        }
    };
    let expire = "UPDATE event_store.api_keys SET expires_at = now() - interval '1 s'";
    sqlx::query(expire).execute(pool).await.unwrap();
    refused("has expired at ");
    let endless = "UPDATE event_store.api_keys SET expires_at = NULL";
    sqlx::query(endless).execute(pool).await.unwrap();
    run_json(url, &["key", "revoke", key]);
    refused("is revoked from ");
    assert!(payloads(pool, "ApiKeyChanged").await.is_empty());
}
