//! The reads of the admin API: accounts, keys, ledgers, links and events of all accounts; and the files beside them.

mod access;
mod event_pages;
mod link_entries;
mod link_events;
mod operators_console;

use axum::http::Method;
use linkledger_core::{
    account::{AccountChanged, AccountChanges, AccountEvent},
    api_key::{AdminKey, AdminScope, ApiKeyEvent, ApiKeyIssued, Scope},
    change::Change,
    clock::{Clock as _, SystemClock, new_uuid},
    credits::{
        ChargeReason, CreditsAdjusted, CreditsCharged, CreditsEvent, CreditsGranted,
        CreditsRefunded, CreditsRevoked,
    },
    envelope::{Metadata, NewEvent},
    event::Event,
    id::{AccountId, AdminKeyId, EntryId, EventId, KeyId},
    timestamp,
};
use linkledger_event_store::{
    accounts,
    admin_keys::{self, NewAdminKey},
    append,
    transaction::PoolTransaction,
};
use linkledger_testing as testing;
use linkledger_testing::{events, record};
use serde_json::{Value, json};
use sqlx::PgPool;
use time::{OffsetDateTime, macros::datetime};

use crate::{
    read_tables::unused_link_id,
    service::{Answer, TestService, token_of},
};

const UNKNOWN_ACCOUNT: &str = "acc_00000000000000000000000000";
const UNKNOWN_KEY: &str = "key_00000000000000000000000000";
const UNKNOWN_LINK: &str = "lnk_00000000000000000000000000";
const ACCOUNTS: &str = "/admin/v1/accounts";
/// Admin key in metadata of events.
const ACTOR: &str = "adm_01h455vb4pex5vsknk084sn02t";
const AT: OffsetDateTime = datetime!(2026-11-20 09:51:00.123 UTC);

/// A service, and an admin key that may read.
struct Fixture {
    service: TestService,
    key: AdminKey,
}

impl Fixture {
    async fn new() -> Self {
        let service = TestService::start().await;
        let key = admin_key(service.pool(), &[AdminScope::Read]).await;
        Self { service, key }
    }

    fn pool(&self) -> &PgPool {
        self.service.pool()
    }

    async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let bearer = format!("Bearer {}", self.key.reveal());
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        self.service.call_admin(Method::GET, path, &headers).await
    }

    /// Returns all items of a list, page by page, and the number of pages.
    async fn items(&self, path: &str) -> (Vec<Value>, usize) {
        let (mut items, mut next, mut pages) = (Vec::new(), Some(path.to_owned()), 0);
        while let Some(path) = next {
            let answer = self.get(&path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            items.extend(answer.json()["items"].as_array().unwrap().iter().cloned());
            pages += 1;
            next = answer.header("link").map(|link| {
                let link = link.strip_suffix(">; rel=\"next\"").unwrap();
                link.strip_prefix('<').unwrap().to_owned()
            });
            assert_eq!(answer.json()["has_more"], next.is_some());
        }
        (items, pages)
    }

    /// Creates an account with a name and an external id.
    async fn account(&self, name: &str, external_id: Option<&str>) -> AccountId {
        let account_id = testing::account(self.pool(), 7).await;
        sqlx::query(
            "UPDATE event_store.accounts
             SET name = $2, external_id = $3, created_at = $4, low_balance_at = '{10,100}'
             WHERE account_id = $1",
        )
        .bind(account_id.uuid())
        .bind(name)
        .bind(external_id)
        .bind(AT)
        .execute(self.pool())
        .await
        .unwrap();
        account_id
    }

    async fn suspend(&self, account_id: AccountId) {
        sqlx::query(
            "UPDATE event_store.accounts SET status = 'suspended', redirects_stopped = true
             WHERE account_id = $1",
        )
        .bind(account_id.uuid())
        .execute(self.pool())
        .await
        .unwrap();
    }

    /// Appends an event of the account's stream, and returns its id.
    async fn append(&self, account_id: AccountId, event: Event) -> EventId {
        let mut tx = PoolTransaction::begin(self.pool()).await.unwrap();
        let locked = accounts::lock_in_tx(&mut tx, &[account_id]).await;
        let mut locked = locked.unwrap();
        let credits = locked.get_mut(&account_id).unwrap();
        *credits = match &event {
            Event::Credits(event) => credits.apply(event),
            Event::Link(_)
            | Event::Account(_)
            | Event::ApiKey(_)
            | Event::Webhook(_)
            | Event::Observation(_) => credits.pass(),
        };
        let new_event = NewEvent {
            event_id: EventId::from_uuid(new_uuid(AT)),
            account_id,
            version: credits.version,
            recorded_at: AT,
            event,
            metadata: Metadata {
                actor: Some(ACTOR.to_owned()),
                ..Metadata::default()
            },
            idempotency: None,
        };
        append::append_in_tx(&mut tx, &[&new_event], &locked)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        new_event.event_id
    }
}

pub(crate) async fn admin_key(pool: &PgPool, scopes: &[AdminScope]) -> AdminKey {
    let secret = AdminKey::generate();
    let now = SystemClock.now();
    let key = NewAdminKey {
        key_id: AdminKeyId::from_uuid(new_uuid(now)),
        secret: &secret,
        name: "test",
        scopes,
        created_at: now,
        created_by: "ann",
        expires_at: None,
    };
    admin_keys::insert(pool, &key).await.unwrap();
    record::secret(record::Secret::ApiKey, secret.reveal());
    secret
}

fn key_issued(account_id: AccountId) -> Event {
    Event::ApiKey(ApiKeyEvent::Issued(ApiKeyIssued {
        account_id,
        key_id: KeyId::from_uuid(new_uuid(AT)),
        name: "web shop".to_owned(),
        scopes: Vec::new(),
        expires_at: None,
    }))
}

fn renamed(account_id: AccountId) -> Event {
    let name = Change {
        from: "test".to_owned(),
        to: "Example Ltd".to_owned(),
    };
    Event::Account(AccountEvent::Changed(AccountChanged {
        account_id,
        changes: AccountChanges {
            name: Some(name),
            ..AccountChanges::default()
        },
    }))
}

fn ids(items: &[Value]) -> Vec<&str> {
    items.iter().map(|it| it["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn account_is_read_by_both_ids() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("Example Ltd", Some("crm/7")).await;
    let expected = json!({
        "id": account_id, "external_id": "crm/7", "name": "Example Ltd", "state": "active", "balance": 7,
        "low_balance_at": [10, 100],
        "created_at": "2026-11-20T09:51:00.123Z",
    });
    let paths = [
        format!("{ACCOUNTS}/{account_id}"),
        format!("{ACCOUNTS}/by-external-id/crm%2F7"),
    ];
    for path in &paths {
        let answer = fixture.get(path).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json(), expected);
        assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    }
    fixture.suspend(account_id).await;
    let suspended = fixture.get(&paths[0]).await.json();
    assert_eq!(suspended["state"], "suspended");
    assert_eq!(suspended["redirects_stopped"], true);
    // Shown at once, and also with a token that the read tables do not contain.
    let link = testing::append_links(fixture.pool(), account_id, &[("abc", "https://a.example/")]);
    let token = token_of(&link.await[0], 1);
    let headers = [("consistency-token", token.as_str())];
    let answer = fixture.get_with(&paths[0], &headers).await;
    assert_eq!(answer.json()["balance"], 6);
    for path in [
        format!("{ACCOUNTS}/{UNKNOWN_ACCOUNT}"),
        format!("{ACCOUNTS}/acc_1"),
        format!("{ACCOUNTS}/by-external-id/crm%2F8"),
        format!("{ACCOUNTS}/by-external-id/crm%208"),
    ] {
        let answer = fixture.get(&path).await;
        answer.assert_problem(404, "account_not_found");
    }
}

#[tokio::test]
async fn accounts_are_found_by_filters() {
    let fixture = Fixture::new().await;
    let mut created = Vec::new();
    for (name, external_id) in [
        ("Example Ltd", Some("crm/1")),
        ("An EXAMPLE", None),
        ("Other", Some("example:2")),
        ("Nobody", None),
        ("100% real_name", None),
    ] {
        created.push(fixture.account(name, external_id).await.to_string());
    }
    fixture.suspend(created[1].parse().unwrap()).await;
    for (query, expected) in [
        ("", &[0, 1, 2, 3, 4][..]),
        ("q=example", &[0, 1, 2]),
        ("q=xamPL", &[0, 1, 2]),
        ("q=crm%2F1", &[0]),
        ("q=examples", &[]),
        ("q=0%25%20r", &[4]),
        ("q=al_", &[4]),
        ("state=suspended", &[1]),
        ("state=active&q=example", &[0, 2]),
        ("external_id=crm%2F1", &[0]),
        ("external_id=crm%2F1&state=suspended", &[]),
        ("external_id=CRM%2F1", &[]),
    ] {
        let mut expected: Vec<&str> = expected.iter().map(|it| created[*it].as_str()).collect();
        // Ids of one millisecond have any order.
        expected.sort_unstable();
        for limit in [1, 2, 100] {
            let path = format!("{ACCOUNTS}?{query}&limit={limit}");
            let (found, pages) = fixture.items(&path).await;
            assert_eq!(ids(&found), expected, "{path}");
            assert_eq!(pages, expected.len().div_ceil(limit).max(1), "{path}");
        }
    }
    let page = fixture.get(&format!("{ACCOUNTS}?q=example&limit=1")).await;
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    for query in ["q=other", "state=active", ""] {
        let path = format!("{ACCOUNTS}?{query}&cursor={cursor}");
        let answer = fixture.get(&path).await;
        answer.assert_problem(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn keys_are_shown_without_secret() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("Example Ltd", None).await;
    let mut prefixes = Vec::new();
    for _ in 0..3 {
        let secret = testing::api_key(fixture.pool(), account_id, &[Scope::LinksRead]).await;
        prefixes.push(secret.shown_prefix().to_owned());
    }
    let other = fixture.account("Other", None).await;
    testing::api_key(fixture.pool(), other, &Scope::ALL).await;
    let path = format!("{ACCOUNTS}/{account_id}/keys");
    let (keys, _) = fixture.items(&path).await;
    let (by_two, pages) = fixture.items(&format!("{path}?limit=2")).await;
    assert_eq!((keys.len(), &by_two, pages), (3, &keys, 2));
    for key in &keys {
        assert!(prefixes.contains(&key["prefix"].as_str().unwrap().to_owned()));
        let expected = json!({
            "id": key["id"], "account_id": account_id, "name": "test", "prefix": key["prefix"],
            "scopes": ["link:links.read"], "created_at": key["created_at"],
        });
        assert_eq!(*key, expected);
        let one = format!("/admin/v1/keys/{}", key["id"].as_str().unwrap());
        assert_eq!(fixture.get(&one).await.json(), *key);
    }
    let revoked_at = "UPDATE event_store.api_keys SET revoked_at = $1, last_used_at = $1";
    sqlx::query(revoked_at)
        .bind(AT)
        .execute(fixture.pool())
        .await
        .unwrap();
    let revoked = fixture
        .get(&format!("/admin/v1/keys/{}", ids(&keys)[0]))
        .await;
    for member in ["revoked_at", "last_used_at"] {
        assert_eq!(revoked.json()[member], timestamp::format(AT));
    }
    for path in [
        format!("/admin/v1/keys/{UNKNOWN_KEY}"),
        "/admin/v1/keys/key_1".to_owned(),
    ] {
        let answer = fixture.get(&path).await;
        answer.assert_problem(404, "key_not_found");
    }
    let unknown = format!("{ACCOUNTS}/{UNKNOWN_ACCOUNT}/keys");
    fixture
        .get(&unknown)
        .await
        .assert_problem(404, "account_not_found");
}

/// Ids of an entry of each type.
struct Ledger {
    grant: EntryId,
    charge: EntryId,
    adjustment: EntryId,
    refund: EntryId,
    revocation: EntryId,
}

const REASON: &str = "ticket 7";
const KEY: &str = "key_01h455vb4pex5vsknk084sn02r";

impl Ledger {
    /// Appends an entry of each type, with other events between.
    async fn append(fixture: &Fixture, account_id: AccountId) -> Self {
        let append = async |event: CreditsEvent| {
            let event_id = fixture.append(account_id, Event::Credits(event)).await;
            EntryId::from_uuid(event_id.uuid())
        };
        let grant = append(grant_with_reference(account_id)).await;
        fixture.append(account_id, key_issued(account_id)).await;
        let charge = append(charge_for_link(account_id)).await;
        fixture.append(account_id, renamed(account_id)).await;
        let adjustment = append(adjustment_by_60(account_id)).await;
        let refund = append(refund_of(account_id, charge)).await;
        let revocation = append(revocation_of(account_id, grant)).await;
        fixture.append(account_id, key_issued(account_id)).await;
        Self {
            grant,
            charge,
            adjustment,
            refund,
            revocation,
        }
    }

    /// Returns the entries as answers show them, newest first.
    fn entries(&self) -> Vec<Value> {
        let link_id = unused_link_id();
        let mut entries = vec![
            json!({
                "id": self.revocation, "type": "revocation", "amount": -47, "balance_after": 0, "grant": self.grant,
                "asked": 100, "taken": 47, "short": 53, "reason": REASON,
            }),
            json!({
                "id": self.refund, "type": "refund", "amount": 3, "balance_after": 47, "refunds": self.charge,
                "link_id": link_id, "reason": REASON,
            }),
            json!({
                "id": self.adjustment, "type": "adjustment", "amount": -60, "balance_after": 44, "reason": REASON,
            }),
            json!({
                "id": self.charge, "type": "charge", "amount": -3, "balance_after": 104, "link_id": link_id,
                "key_id": KEY, "reason": "link_created", "reversed_by": self.refund,
            }),
            json!({
                "id": self.grant, "type": "grant", "amount": 100, "balance_after": 107, "reason": REASON,
                "reference": "invoice-1", "description": "Starter pack", "reversed_by": self.revocation,
            }),
        ];
        for entry in &mut entries {
            entry["actor"] = json!(ACTOR);
            entry["created_at"] = json!(timestamp::format(AT));
        }
        entries
    }
}

fn grant_with_reference(account_id: AccountId) -> CreditsEvent {
    CreditsEvent::Granted(CreditsGranted {
        account_id,
        amount: 100,
        balance_after: 107,
        reason: REASON.to_owned(),
        reference: Some("invoice-1".to_owned()),
        description: Some("Starter pack".to_owned()),
    })
}

fn charge_for_link(account_id: AccountId) -> CreditsEvent {
    CreditsEvent::Charged(CreditsCharged {
        account_id,
        amount: 3,
        balance_after: 104,
        link_id: unused_link_id(),
        key_id: KEY.parse().unwrap(),
        reason: ChargeReason::LinkCreated,
        low_balance: None,
    })
}

fn adjustment_by_60(account_id: AccountId) -> CreditsEvent {
    CreditsEvent::Adjusted(CreditsAdjusted {
        account_id,
        amount: -60,
        balance_after: 44,
        reason: REASON.to_owned(),
        reference: None,
        description: None,
    })
}

fn refund_of(account_id: AccountId, charge: EntryId) -> CreditsEvent {
    CreditsEvent::Refunded(CreditsRefunded {
        account_id,
        amount: 3,
        balance_after: 47,
        refunds: charge,
        link_id: unused_link_id(),
        reason: REASON.to_owned(),
    })
}

fn revocation_of(account_id: AccountId, grant: EntryId) -> CreditsEvent {
    CreditsEvent::Revoked(CreditsRevoked {
        account_id,
        grant,
        asked: 100,
        amount: 47,
        short: 53,
        balance_after: 0,
        reason: REASON.to_owned(),
    })
}

#[tokio::test]
async fn ledger_has_every_entry_with_its_author() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("Example Ltd", None).await;
    let expected = Ledger::append(&fixture, account_id).await.entries();
    let path = format!("{ACCOUNTS}/{account_id}/entries");
    for limit in [1, 2, 3, 7, 8, 100] {
        let (entries, _) = fixture.items(&format!("{path}?limit={limit}")).await;
        assert_eq!(entries, expected, "{limit}");
    }
    let unknown = format!("{ACCOUNTS}/{UNKNOWN_ACCOUNT}/entries");
    let answer = fixture.get(&unknown).await;
    answer.assert_problem(404, "account_not_found");
}

#[tokio::test]
async fn link_is_found_by_each_name() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("Example Ltd", None).await;
    let other = fixture.account("Other", None).await;
    let links = testing::append_links(
        fixture.pool(),
        account_id,
        &[("Spring-26", "https://a.example/")],
    );
    let created = links.await.remove(0).link;
    let external_id = created.external_id.clone().unwrap();
    let external_id = external_id.replace('/', "%2F");
    let path = |query: &str| format!("/admin/v1/links?{query}");
    let of_external_id =
        |owner: AccountId| path(&format!("external_id={external_id}&account={owner}"));
    for path in [
        path("slug=spring-26"),
        path(&format!("id={}", created.link_id)),
        path("short_url=http%3A%2F%2F127.0.0.1%3A8081%2FSPRING-26"),
        path("short_url=127.0.0.1%3A8081%2Fspring-26"),
        of_external_id(account_id),
    ] {
        let answer = fixture.get(&path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let link = answer.json();
        assert_eq!(link["id"], created.link_id.to_string());
        assert_eq!(link["account_id"], account_id.to_string());
        assert_eq!(link["destination_url"], "https://a.example/");
        assert_eq!(link["short_url"], "https://sho.rt/Spring-26");
        assert_eq!(link.get("deleted"), None);
    }
    for path in [
        path("slug=spring-27"),
        path(&format!("id={}", unused_link_id())),
        path("short_url=sho.rt.example%2Fspring-26"),
        of_external_id(other),
        of_external_id(UNKNOWN_ACCOUNT.parse().unwrap()),
    ] {
        let answer = fixture.get(&path).await;
        answer.assert_problem(404, "link_not_found");
    }
    // The stream of an account is no link.
    let account = created.account_id.to_string().replace("acc_", "lnk_");
    let answer = fixture.get(&path(&format!("id={account}"))).await;
    answer.assert_problem(404, "link_not_found");

    let changes = [events::disabled(&created), events::deleted(&created)];
    testing::append_events(fixture.pool(), account_id, &changes).await;
    let deleted = fixture.get(&path("slug=spring-26")).await.json();
    assert_eq!(
        (&deleted["deleted"], &deleted["disabled"]),
        (&json!(true), &json!(true))
    );
    let answer = fixture.get(&of_external_id(account_id)).await;
    answer.assert_problem(404, "link_not_found");
}

#[tokio::test]
async fn link_must_be_named_in_one_way() {
    const PARAMETERS: [&str; 5] = ["slug", "short_url", "id", "external_id", "account"];
    let fixture = Fixture::new().await;
    let detail = "Send exactly one of slug, short_url, id, and external_id with account.";
    for (query, detail, parameters) in [
        ("", detail, &PARAMETERS[..]),
        (
            "?slug=abc&id=lnk_01h455vb4pex5vsknk084sn02q",
            detail,
            &PARAMETERS,
        ),
        (
            "?external_id=a",
            "Send account too: an external id names a link of one account.",
            &["account"],
        ),
        (
            "?account=acc_01h455vb4pex5vsknk084sn02q",
            "Send account only together with external_id: every other name is of one link of all accounts.",
            &["account"],
        ),
    ] {
        let answer = fixture.get(&format!("/admin/v1/links{query}")).await;
        answer.assert_problem(400, "invalid_parameter");
        let problem = answer.json();
        assert_eq!(problem["detail"], detail, "{query}");
        let errors = problem["errors"].as_array().unwrap().iter();
        let named: Vec<_> = errors
            .map(|error| error["parameter"].as_str().unwrap())
            .collect();
        assert_eq!(named, parameters, "{query}");
    }
}
