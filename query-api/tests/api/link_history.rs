//! `GET /v1/links/{id}/history`: the events of a link.

mod instants;

use linkledger_core::{
    clock::new_uuid,
    envelope::{Metadata, NewEvent},
    event::Event,
    id::{AccountId, EventId, LinkId},
    link::{ExistingLink, LinkDetails, LinkEvent},
    timestamp,
};
use linkledger_event_store::{accounts, append, transaction::PoolTransaction};
use linkledger_testing as testing;
use linkledger_testing::{events, link_after};
use serde_json::{Value, json};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime, macros::datetime};

use crate::{
    read_tables::unused_link_id,
    service::{TestCaller, TestService, token_of},
};

/// Time of the first event, before the time of the service's clock.
const CREATED_AT: OffsetDateTime = datetime!(2026-11-20 09:00:00.123 UTC);
/// Time between two events.
const STEP: Duration = Duration::minutes(1);
const KEY: &str = "key_01h455vb4pex5vsknk084sn02r";
/// Admin key of an operator, which owners see as `operator`.
const ADMIN_KEY: &str = "adm_01h455vb4pex5vsknk084sn02t";
const FIRST: &str = "https://example.com/1";
const TITLE: &str = "Autumn \u{1f342} sale";

/// A link with the events that were appended to its stream.
struct Stream {
    account_id: AccountId,
    link_id: LinkId,
    /// The link after each event, with the time of the event; the link of version 1 comes first.
    links: Vec<(OffsetDateTime, ExistingLink)>,
}

impl Stream {
    /// Creates a link.
    async fn create(pool: &PgPool, caller: &TestCaller) -> Self {
        let mut stream = Self {
            account_id: caller.account_id,
            link_id: LinkId::from_uuid(new_uuid(CREATED_AT)),
            links: Vec::new(),
        };
        let created = LinkEvent::Created(stream.created());
        stream.append(pool, CREATED_AT, created, KEY).await;
        stream
    }

    /// Appends an event one step after the event before.
    async fn change(&mut self, pool: &PgPool, event: Event, by: &str) {
        let Event::Link(event) = event else {
            panic!("an event of another stream");
        };
        let (last, _) = self.links.last().unwrap();
        self.append(pool, *last + STEP, event, by).await;
    }

    async fn append(&mut self, pool: &PgPool, at: OffsetDateTime, event: LinkEvent, by: &str) {
        let before = self.links.last().map(|(_, link)| link.clone());
        let link = link_after(before, &event, at);
        let state = (link.version > 1).then(|| link.state.clone());
        let new_event = NewEvent {
            event_id: EventId::from_uuid(new_uuid(at)),
            account_id: self.account_id,
            version: link.version,
            recorded_at: at,
            event: Event::Link(event),
            metadata: Metadata {
                actor: Some(by.to_owned()),
                link: state.map(Into::into),
                ..Metadata::default()
            },
            idempotency: None,
        };
        let mut tx = PoolTransaction::begin(pool).await.unwrap();
        let locked = accounts::lock_in_tx(&mut tx, &[self.account_id]).await;
        append::append_in_tx(&mut tx, &[&new_event], &locked.unwrap())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.links.push((at, link));
    }

    /// Changes destination and title, disables, enables and deletes the link.
    async fn change_in_every_way(&mut self, pool: &PgPool) {
        let created = self.created();
        let moved = events::destination_changed(&created, "https://example.com/2");
        self.change(pool, moved, KEY).await;
        self.change(pool, events::disabled(&created), "operator")
            .await;
        let moved = events::destination_changed(&created, "https://example.com/3");
        self.change(pool, moved, KEY).await;
        self.change(pool, events::enabled(&created), ADMIN_KEY)
            .await;
        let renamed = LinkDetails {
            title: Some(TITLE.to_owned()),
            ..created.details()
        };
        self.change(pool, events::details_changed(&created, &renamed), KEY)
            .await;
        self.change(pool, events::deleted(&created), KEY).await;
    }

    fn created(&self) -> linkledger_core::link::LinkCreated {
        let slug = format!("s{}", self.link_id.uuid().simple());
        testing::link_created(self.link_id, self.account_id, &slug, FIRST)
    }

    fn path(&self) -> String {
        format!("/v1/links/{}", self.link_id)
    }

    fn history(&self) -> String {
        format!("{}/history", self.path())
    }

    /// Returns the changes of the first event: each member that the create has set.
    fn members_of_creation(&self) -> Value {
        let created = self.created();
        let mut members = json!(created.details());
        members["destination_url"] = json!(created.destination_url);
        let members = members.as_object().unwrap().iter();
        let changes = members.map(|(name, to)| (name.clone(), json!({ "from": null, "to": to })));
        Value::Object(changes.collect())
    }

    fn path_at(&self, at: &str) -> String {
        format!("{}?at={}", self.path(), at.replace('+', "%2B"))
    }
}

#[tokio::test]
async fn history_has_author_and_changed_members() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let mut stream = Stream::create(service.pool(), &caller).await;
    stream.change_in_every_way(service.pool()).await;
    // Suspensions are events of the account.
    let suspension = [
        events::suspended(caller.account_id, true),
        events::resumed(caller.account_id),
    ];
    testing::append_events(service.pool(), caller.account_id, &suspension).await;
    sqlx::query("UPDATE event_store.accounts SET status = 'active'")
        .execute(service.pool())
        .await
        .unwrap();

    let answer = service.get(&caller, &stream.history()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    let entry = |version: i64, event_type: &str, by: &str, changes: Value| {
        let at = CREATED_AT + STEP * i32::try_from(version - 1).unwrap();
        json!({
            "version": version, "type": event_type, "at": timestamp::format(at), "by": by, "changes": changes,
        })
    };
    let moved = |from: Value, to: &str| json!({ "destination_url": { "from": from, "to": to } });
    let disabled = |from: Value, to: Value| {
        json!({
            "disabled": { "from": !from.is_null(), "to": !to.is_null() },
            "disabled_by": { "from": from, "to": to },
        })
    };
    let title = stream.created().details().title;
    let (second, third) = ("https://example.com/2", "https://example.com/3");
    let expected = json!({
        "items": [
            entry(7, "LinkDeleted", KEY, json!({ "deleted": { "from": false, "to": true } })),
            entry(6, "LinkDetailsChanged", KEY, json!({ "title": { "from": title, "to": TITLE } })),
            entry(5, "LinkEnabled", "operator", disabled(json!("operator"), json!(null))),
            entry(4, "LinkDestinationChanged", KEY, moved(json!(second), third)),
            entry(3, "LinkDisabled", "operator", disabled(json!(null), json!("operator"))),
            entry(2, "LinkDestinationChanged", KEY, moved(json!(FIRST), second)),
            entry(1, "LinkCreated", KEY, stream.members_of_creation()),
        ],
        "next_cursor": null,
        "has_more": false,
    });
    assert_eq!(answer.json(), expected);
    service
        .get(&caller, &stream.path())
        .await
        .assert_problem(404, "link_not_found");
}

#[tokio::test]
async fn pages_reach_creation_during_changes() {
    const CHANGES: usize = 7;
    let service = TestService::start().await;
    let caller = service.caller().await;
    let mut stream = Stream::create(service.pool(), &caller).await;
    let created = stream.created();
    for number in 0..CHANGES {
        let moved = events::destination_changed(&created, &format!("https://a.example/{number}"));
        stream.change(service.pool(), moved, KEY).await;
    }
    let mut items: Vec<Value> = Vec::new();
    let mut path = format!("{}?limit=3", stream.history());
    loop {
        let answer = service.get(&caller, &path).await;
        let page = answer.json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(cursor) = page["next_cursor"].as_str() else {
            assert_eq!(answer.header("link"), None);
            break;
        };
        path = format!("{}?limit=3&cursor={cursor}", stream.history());
        let link = format!("<https://api.example.com{path}>; rel=\"next\"");
        assert_eq!(answer.header("link"), Some(link.as_str()));
        let moved = events::destination_changed(&created, "https://b.example/");
        stream.change(service.pool(), moved, KEY).await;
    }
    let versions: Vec<_> = items.iter().map(|item| item["version"].as_u64()).collect();
    let expected = (1..=CHANGES as u64 + 1).rev().map(Some);
    assert_eq!(versions, expected.collect::<Vec<_>>());
    for pair in items.windows(2) {
        let [newer, older] = [&pair[0], &pair[1]].map(|item| &item["changes"]["destination_url"]);
        assert_eq!(newer["from"], older["to"]);
    }
}

#[tokio::test]
async fn cursor_works_for_its_own_history_only() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let mut stream = Stream::create(service.pool(), &caller).await;
    stream.change_in_every_way(service.pool()).await;
    let second = Stream::create(service.pool(), &caller).await;
    let page = format!("{}?limit=1", stream.history());
    let page = service.get(&caller, &page).await.json();
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    let own = format!("{}?cursor={cursor}", stream.history());
    assert_eq!(service.get(&caller, &own).await.status, 200);
    let unknown = format!("/v1/links/{}/history?cursor={cursor}", unused_link_id());
    for (caller, path) in [
        (&other, own.clone()),
        (&caller, format!("{}?cursor={cursor}", second.history())),
        (&caller, unknown),
        (&caller, format!("/v1/links?cursor={cursor}")),
        (&caller, own.replace("cursor=", "cursor=A")),
        (&caller, own[..own.len() - 1].to_owned()),
        (&caller, format!("{}?cursor=", stream.history())),
        (&caller, format!("{}?cursor=%2B", stream.history())),
    ] {
        let answer = service.get(caller, &path).await;
        answer.assert_problem(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn deleted_link_is_hidden_from_other_accounts() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let mut stream = Stream::create(service.pool(), &caller).await;
    stream.change_in_every_way(service.pool()).await;
    let at = timestamp::format(CREATED_AT);
    for path in [stream.history(), stream.path_at(&at)] {
        assert_eq!(service.get(&caller, &path).await.status, 200, "{path}");
        let foreign = service.get(&other, &path).await;
        let id = stream.link_id.to_string();
        let unknown = path.replace(&id, &unused_link_id().to_string());
        let unknown = service.get(&other, &unknown).await;
        unknown.assert_problem(404, "link_not_found");
        assert_eq!(foreign.status, 404);
        assert_eq!(
            foreign.body_without_request_id(),
            unknown.body_without_request_id()
        );
    }
    // The stream of the account is no link.
    let account = LinkId::from_uuid(caller.account_id.uuid());
    let path = format!("/v1/links/{account}/history");
    let answer = service.get(&caller, &path).await;
    answer.assert_problem(404, "link_not_found");
}

#[tokio::test]
async fn fresh_link_has_history_before_read_tables() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "fresh").await;
    let token = token_of(&link, 1);
    let headers = [("consistency-token", token.as_str())];
    let path = format!("/v1/links/{}/history", link.link.link_id);
    let answer = service.get_with(&caller, &path, &headers).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["items"][0]["version"], 1);
}
