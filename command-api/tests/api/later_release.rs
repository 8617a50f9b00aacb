//! During a rolling upgrade, the older release reads events of the later release: the older release decides nothing on the
//! affected links and keys, and continues with all others.

use futures::future::join_all;
use linkledger_core::{
    event::{Event, Subject},
    id::{AccountId, KeyId, LinkId},
};
use linkledger_testing::{LaterEvent, append_later_event};
use serde_json::{Value, json};

use crate::{
    cli::error,
    relay_fixture::consume,
    support::{TestApp, change, create, delete, destination, fresh_key, send},
};

fn kept(more: &Value) -> Value {
    let mut link = json!({
        "slug": "frozen",
        "created_at": "2026-11-20T09:51:00.123Z",
        "destination_url": "https://example.com/",
    });
    let members = more.as_object().unwrap().clone();
    link.as_object_mut().unwrap().extend(members);
    json!({ "link": link })
}

fn of_link(account_id: AccountId, link_id: &str, event_type: &'static str) -> LaterEvent {
    let payload = json!({
        "link_id": link_id,
        "account_id": account_id,
        "destination_url": "https://example.com/",
        "previous_destination_url": "https://example.com/",
    });
    LaterEvent {
        account_id,
        stream_id: link_id.parse::<LinkId>().unwrap().uuid(),
        event_type,
        schema_version: 1,
        payload,
        metadata: kept(&json!({})),
        idempotency_key: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn link_changed_by_later_release_is_untouched() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    let unknown_type = |link_id: &str| of_link(account_id, link_id, "LinkFrozen");
    let unknown_version = |link_id: &str| LaterEvent {
        schema_version: 2,
        ..of_link(account_id, link_id, "LinkDestinationChanged")
    };
    let unknown_state = |link_id: &str| LaterEvent {
        metadata: kept(&json!({ "frozen": true })),
        ..of_link(account_id, link_id, "LinkDestinationChanged")
    };
    let later: [&dyn Fn(&str) -> LaterEvent; 3] = [&unknown_type, &unknown_version, &unknown_state];
    let names = [
        "unknown event `LinkFrozen` version 1",
        "unknown event `LinkDestinationChanged` version 2",
        "unknown field `frozen`",
    ];
    for (later, name) in later.iter().zip(names) {
        let create_key = fresh_key();
        let created = send(&app.router, create(&key, create_key, &destination())).await;
        let id = created.json()["id"].as_str().unwrap().to_owned();
        let other = app.link(&key).await;
        append_later_event(app.database.pool(), later(&id)).await;

        let body = json!({ "destination_url": "https://example.com/new" });
        let requests = [
            change(&key, &id, &body),
            change(&key, &other, &body),
            delete(&key, &id),
        ];
        let answers = join_all(requests.map(|request| send(&app.router, request))).await;
        let statuses = answers.iter().map(|answer| answer.status.as_u16());
        assert_eq!(statuses.collect::<Vec<_>>(), [500, 200, 500], "{name}");
        assert_eq!(answers[0].problem(), "internal_error");

        let disable = ["link", "disable", "--link", &id, "--reason", "spam"];
        let refused = error(app.database.url(), &disable, 1);
        assert!(refused.contains(&id) && refused.contains(name), "{refused}");
        // A replay of an earlier create still works.
        let again = send(&app.router, create(&key, create_key, &destination())).await;
        assert_eq!(again.body, created.body);
    }
    assert_eq!(
        app.count("LinkDeleted").await + app.count("LinkDisabled").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_later_release_charges_only_once() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    let idempotency_key = fresh_key();
    let link = LinkId::from_uuid(fresh_key());
    let created = LaterEvent {
        stream_id: link.uuid(),
        schema_version: 2,
        payload: json!({ "link": { "id": link } }),
        metadata: json!({ "renderer": 1 }),
        idempotency_key: Some(format!("create:{idempotency_key}")),
        ..of_link(account_id, &link.to_string(), "LinkCreated")
    };
    let charged = LaterEvent {
        stream_id: Subject::Account(account_id).stream_id(),
        event_type: "CreditsCharged",
        schema_version: 1,
        payload: json!({
            "account_id": account_id, "amount": 1, "balance_after": 9, "link_id": link,
            "key_id": KeyId::from_uuid(fresh_key()), "reason": "link_created",
        }),
        metadata: json!({}),
        idempotency_key: None,
        ..created.clone()
    };
    assert!(Event::from_stored("CreditsCharged", 1, &charged.payload.to_string()).is_ok());
    append_later_event(app.database.pool(), created).await;
    append_later_event(app.database.pool(), charged).await;

    let answer = send(&app.router, create(&key, idempotency_key, &destination())).await;
    assert_eq!(answer.status, 500, "{answer:?}");
    let change_of_it = change(&key, &link.to_string(), &json!({}));
    assert_eq!(send(&app.router, change_of_it).await.status, 500);
    assert_eq!(app.count("CreditsCharged").await, 1);
    assert_eq!(app.balance(account_id).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_later_release_is_relayed_unchanged() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    let id = app.link(&key).await;
    let frozen = LaterEvent {
        schema_version: 3,
        payload: json!({ "link": { "id": id }, "until": null }),
        metadata: kept(&json!({ "frozen": true })),
        ..of_link(account_id, &id, "LinkFrozen")
    };
    append_later_event(app.database.pool(), frozen.clone()).await;

    let records = consume(&app.broker, 3);
    let (_, headers, payload) = &records[2];
    assert_eq!(headers["ce_type"], "linkledger.LinkFrozen.v3");
    assert_eq!(
        headers["ce_dataschema"],
        "urn:linkledger:schema:LinkFrozen:v3"
    );
    assert_eq!(
        (&headers["ce_subject"], &headers["ce_sequence"][18..]),
        (&id, "03")
    );
    assert_eq!(*payload, frozen.payload.to_string());
    let state: Value = serde_json::from_str(&headers["ce_linkstate"]).unwrap();
    assert_eq!(state, frozen.metadata["link"]);
}
