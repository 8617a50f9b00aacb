//! `GET /v1/links/{id}?at=`: the link at an instant, against a fold of the same events.

use linkledger_core::{clock::Clock as _, event::Event, timestamp};
use linkledger_testing::events;
use serde_json::json;
use time::Duration;

use super::{CREATED_AT, KEY, STEP, Stream};
use crate::service::{Answer, TestService};

/// Panics unless the answer is the link of one version of the stream.
#[track_caller]
fn assert_version(answer: &Answer, stream: &Stream, version: usize, at: &str) {
    let link = &stream.links[version - 1].1;
    if link.state.deleted {
        answer.assert_problem(404, "link_not_found");
        return;
    }
    assert_eq!(answer.status, 200, "{at}: {}", answer.body);
    let etag = format!("\"{version}\"");
    assert_eq!(answer.header("etag"), Some(etag.as_str()), "{at}");
    let body = answer.json();
    assert_eq!(body["destination_url"], *link.state.destination_url, "{at}");
    let details = json!(link.state.details);
    for name in ["title", "external_id", "tags", "expires_at", "expired_url"] {
        assert_eq!(body.get(name), details.get(name), "{at}: {name}");
    }
    let by_operator = link.state.disabled_by_operator.then(|| json!("operator"));
    assert_eq!(body.get("disabled_by"), by_operator.as_ref(), "{at}");
    assert_eq!(body["id"], stream.link_id.to_string());
    assert_eq!(body["created_at"], timestamp::format(CREATED_AT));
}

#[tokio::test]
async fn instant_between_versions_returns_link_of_then() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let mut stream = Stream::create(service.pool(), &caller).await;
    // Two events in one millisecond: the last one counts.
    let moved = events::destination_changed(&stream.created(), "https://example.com/first");
    let Event::Link(moved) = moved else {
        panic!("an event of another stream");
    };
    stream.append(service.pool(), CREATED_AT, moved, KEY).await;
    stream.change_in_every_way(service.pool()).await;

    let millisecond = Duration::MILLISECOND;
    let before = timestamp::format(CREATED_AT - millisecond);
    for at in [before.as_str(), "2000-01-01T00:00:00Z", "2026-11-20"] {
        let answer = service.get(&caller, &stream.path_at(at)).await;
        answer.assert_problem(404, "link_not_found");
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("did not exist at "), "{detail}");
    }
    for (version, (recorded_at, _)) in (1..).zip(&stream.links).skip(1) {
        let next = stream.links.get(version).map(|(next, _)| *next);
        let end = next.unwrap_or(*recorded_at + STEP) - millisecond;
        let whole = timestamp::format(*recorded_at);
        let instants = [
            // An instant of an answer has no fraction of a millisecond.
            whole.replace('Z', "999Z"),
            whole,
            timestamp::format(*recorded_at + STEP / 2),
            timestamp::format(end),
            timestamp::format(end + Duration::hours(2)).replace('Z', "+02:00"),
        ];
        for at in instants {
            let answer = service.get(&caller, &stream.path_at(&at)).await;
            assert_version(&answer, &stream, version, &at);
        }
    }
}

#[tokio::test]
async fn change_timed_before_creation_is_404_until_it() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let mut stream = Stream::create(service.pool(), &caller).await;
    let moved = events::destination_changed(&stream.created(), "https://example.com/2");
    let Event::Link(moved) = moved else {
        panic!("an event of another stream");
    };
    let earlier = CREATED_AT - STEP;
    stream.append(service.pool(), earlier, moved, KEY).await;
    let before = timestamp::format(CREATED_AT - Duration::MILLISECOND);
    for at in [timestamp::format(earlier), before] {
        let answer = service.get(&caller, &stream.path_at(&at)).await;
        answer.assert_problem(404, "link_not_found");
    }
    let at = timestamp::format(CREATED_AT);
    let answer = service.get(&caller, &stream.path_at(&at)).await;
    assert_version(&answer, &stream, 2, &at);
}

#[tokio::test]
async fn future_and_malformed_instants_are_rejected() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let stream = Stream::create(service.pool(), &caller).await;
    let now = service.clock.now();
    let at = timestamp::format(now);
    assert_version(
        &service.get(&caller, &stream.path_at(&at)).await,
        &stream,
        1,
        &at,
    );
    let later = timestamp::format(now + Duration::MILLISECOND);
    for (at, code) in [
        (later.as_str(), "time_in_the_future"),
        ("2026-11-21", "time_in_the_future"),
        ("2099-12-31T23:59:59.999999999Z", "time_in_the_future"),
        ("", "invalid_time"),
        ("now", "invalid_time"),
        ("2026-11-20T09:30:00", "invalid_time"),
        ("1999-12-31T23:59:59Z", "invalid_time"),
        ("2100-01-01", "invalid_time"),
        ("9999-12-31T23:59:59Z", "invalid_time"),
        ("-2026-11-20", "invalid_time"),
        ("1763629200", "invalid_time"),
        ("2026-11-20T09:30:00Z%00", "invalid_encoding"),
        ("%FF", "invalid_encoding"),
        ("2026-11-20&at=2026-11-20", "repeated_parameter"),
        ("2026-11-20&limit=1", "unknown_parameter"),
    ] {
        // The instant is checked before the id.
        for path in [stream.path(), "/v1/links/x".to_owned()] {
            let answer = service.get(&caller, &format!("{path}?at={at}")).await;
            answer.assert_problem(400, "invalid_parameter");
            assert_eq!(answer.json()["errors"][0]["code"], code, "{at}");
        }
    }
}

#[tokio::test]
async fn earlier_version_has_etag_for_revalidation() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let mut stream = Stream::create(service.pool(), &caller).await;
    stream.change_in_every_way(service.pool()).await;
    let path = stream.path_at(&timestamp::format(CREATED_AT + STEP));
    for (tag, status) in [("\"2\"", 304), ("\"6\"", 200)] {
        let headers = [("if-none-match", tag)];
        let answer = service.get_with(&caller, &path, &headers).await;
        assert_eq!(answer.status, status, "{tag}");
        assert_eq!(answer.header("etag"), Some("\"2\""));
    }
}
