//! Effect of each type of event on the rows, alone and in a batch with others.

use linkledger_core::link::LinkCreated;
use linkledger_projector::pipeline::followers::Followers;

use crate::{
    events::{
        adjusted, deleted, destination_changed, disabled, enabled, every_change, resumed, suspended,
    },
    fixture::Fixture,
    tables::Tables,
};

const ELSEWHERE: &str = "https://elsewhere.example/";

/// Returns a projected link, and the followers that projected it.
async fn projected_link(fixture: &Fixture) -> (LinkCreated, Followers) {
    let account_id = fixture.account_with_links("other", 1).await;
    let link = fixture.append_links(account_id, "Link", 1).await.remove(0);
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    (link, followers)
}

/// Returns destination and version in the list of links; `None` if the list lacks the link.
async fn listed(fixture: &Fixture, link: &LinkCreated) -> Option<(String, i64)> {
    sqlx::query_as("SELECT destination_url, version FROM read_model.links WHERE link_id = $1")
        .bind(link.link_id.uuid())
        .fetch_optional(fixture.database.pool())
        .await
        .unwrap()
}

/// Returns destination and state of the redirect.
async fn followed(fixture: &Fixture) -> (String, String) {
    sqlx::query_as(
        "SELECT destination_url, state FROM read_model.redirects WHERE slug_key = 'link-0x'",
    )
    .fetch_one(fixture.database.pool())
    .await
    .unwrap()
}

async fn is_stopped(fixture: &Fixture, link: &LinkCreated) -> bool {
    let rows = sqlx::query("SELECT FROM read_model.stopped_accounts WHERE account_id = $1")
        .bind(link.account_id.uuid())
        .fetch_all(fixture.database.pool());
    !rows.await.unwrap().is_empty()
}

#[tokio::test]
async fn link_changes_reach_both_tables() {
    let fixture = Fixture::new().await;
    let (link, mut followers) = projected_link(&fixture).await;
    let begun = "https://example.com/";
    let steps = [
        (None, Some((begun, 1)), (begun, "active")),
        (Some(disabled(&link)), Some((begun, 2)), (begun, "disabled")),
        (
            Some(destination_changed(&link, ELSEWHERE)),
            Some((ELSEWHERE, 3)),
            (ELSEWHERE, "disabled"),
        ),
        (
            Some(enabled(&link)),
            Some((ELSEWHERE, 4)),
            (ELSEWHERE, "active"),
        ),
        (Some(deleted(&link)), None, (ELSEWHERE, "deleted")),
    ];
    for (event, in_list, (url, state)) in steps {
        if let Some(event) = event {
            fixture.append(link.account_id, &[event]).await;
        }
        let log = fixture.log().await;
        followers.cycle(log.clone()).await.unwrap();
        let in_list = in_list.map(|(url, version)| (url.to_owned(), version));
        assert_eq!(listed(&fixture, &link).await, in_list);
        assert_eq!(followed(&fixture).await, (url.to_owned(), state.to_owned()));
        assert_eq!(
            Tables::read(fixture.database.pool()).await,
            Tables::of_log(&log)
        );
    }
}

#[tokio::test]
async fn every_type_of_event_changes_the_tables_alone() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("every", 0).await;
    let mut followers = fixture.followers();
    for event in every_change(pool, account_id, "every").await {
        let event_type = event.event_type();
        fixture.append(account_id, &[event]).await;
        let log = fixture.log().await;
        followers.cycle(log.clone()).await.unwrap();
        assert_eq!(
            Tables::read(pool).await,
            Tables::of_log(&log),
            "{event_type}"
        );
    }
}

#[tokio::test]
async fn one_batch_applies_all_events_of_link() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("batch", 4).await;
    let links = fixture.append_links(account_id, "more", 4).await;
    fixture.apply_log().await;
    let later = fixture.append_links(account_id, "later", 4).await;
    for links in [&links, &later] {
        let mut events = Vec::new();
        for link in links {
            events.push(destination_changed(link, "https://between.example/"));
            events.push(disabled(link));
            events.push(destination_changed(link, ELSEWHERE));
        }
        events.push(enabled(&links[1]));
        events.push(destination_changed(&links[1], "https://last.example/"));
        events.push(deleted(&links[2]));
        events.push(enabled(&links[3]));
        events.push(deleted(&links[3]));
        fixture.append(account_id, &events).await;
    }
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn suspended_account_is_stopped_until_resumed() {
    let fixture = Fixture::new().await;
    let (link, mut followers) = projected_link(&fixture).await;
    let account_id = link.account_id;
    for (event, then) in [
        (suspended(account_id, false), false),
        (suspended(account_id, true), true),
        (suspended(account_id, true), true),
        (suspended(account_id, false), false),
        (suspended(account_id, true), true),
        (resumed(account_id), false),
    ] {
        fixture.append(account_id, &[event]).await;
        followers.cycle(fixture.log().await).await.unwrap();
        assert_eq!(is_stopped(&fixture, &link).await, then);
    }
    fixture
        .append(
            account_id,
            &[resumed(account_id), suspended(account_id, true)],
        )
        .await;
    followers.cycle(fixture.log().await).await.unwrap();
    assert!(is_stopped(&fixture, &link).await, "the last one counts");
}

#[tokio::test]
async fn adjustment_adds_entry_and_suspension_only_version() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("ledger", 1).await;
    fixture
        .append(
            account_id,
            &[
                adjusted(account_id, -7, 999_992),
                suspended(account_id, true),
                adjusted(account_id, 8, 1_000_000),
                resumed(account_id),
            ],
        )
        .await;
    fixture.apply_log().await;
    let entries: Vec<(i64, String, i64, i64)> = sqlx::query_as(
        "SELECT version, type, amount, balance_after FROM read_model.credit_entries
         ORDER BY version",
    )
    .fetch_all(fixture.database.pool())
    .await
    .unwrap();
    let entry = |version, kind: &str, amount, after| (version, kind.to_owned(), amount, after);
    assert_eq!(
        entries,
        [
            entry(1, "grant", 1_000_000, 1_000_000),
            entry(2, "charge", -1, 999_999),
            entry(3, "adjustment", -7, 999_992),
            entry(5, "adjustment", 8, 1_000_000),
        ]
    );
    let balance: (i64, i64) =
        sqlx::query_as("SELECT balance, version FROM read_model.credit_balances")
            .fetch_one(fixture.database.pool())
            .await
            .unwrap();
    assert_eq!(balance, (1_000_000, 5));
}
