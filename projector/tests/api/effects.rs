//! Effect of each type of event on the rows, alone and in a batch with others.

use linkledger_core::link::LinkCreated;
use linkledger_projector::pipeline::followers::Followers;

use crate::{
    events::{
        adjusted, deleted, destination_changed, disabled, enabled, every_change, resumed, suspended,
    },
    stage::Stage,
    tables::Tables,
};

const ELSEWHERE: &str = "https://elsewhere.example/";

/// Returns a projected link, and the followers that projected it.
async fn projected_link(stage: &Stage) -> (LinkCreated, Followers) {
    let account_id = stage.account_with_links("other", 1).await;
    let link = stage.append_links(account_id, "Link", 1).await.remove(0);
    let mut followers = stage.followers();
    followers.cycle(stage.log().await).await.unwrap();
    (link, followers)
}

/// Returns destination and version in the list of links; `None` if the list lacks the link.
async fn listed(stage: &Stage, link: &LinkCreated) -> Option<(String, i64)> {
    sqlx::query_as("SELECT destination_url, version FROM read_model.links WHERE link_id = $1")
        .bind(link.link_id.uuid())
        .fetch_optional(stage.database.pool())
        .await
        .unwrap()
}

/// Returns destination and state of the redirect.
async fn followed(stage: &Stage) -> (String, String) {
    sqlx::query_as(
        "SELECT destination_url, state FROM read_model.redirects WHERE slug_folded = 'link-0x'",
    )
    .fetch_one(stage.database.pool())
    .await
    .unwrap()
}

async fn is_stopped(stage: &Stage, link: &LinkCreated) -> bool {
    let rows = sqlx::query("SELECT FROM read_model.stopped_accounts WHERE account_id = $1")
        .bind(link.account_id.uuid())
        .fetch_all(stage.database.pool());
    !rows.await.unwrap().is_empty()
}

#[tokio::test]
async fn link_changes_reach_both_tables() {
    let stage = Stage::set().await;
    let (link, mut followers) = projected_link(&stage).await;
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
            stage.append(link.account_id, &[event]).await;
        }
        let log = stage.log().await;
        followers.cycle(log.clone()).await.unwrap();
        let in_list = in_list.map(|(url, version)| (url.to_owned(), version));
        assert_eq!(listed(&stage, &link).await, in_list);
        assert_eq!(followed(&stage).await, (url.to_owned(), state.to_owned()));
        assert_eq!(
            Tables::read(stage.database.pool()).await,
            Tables::of_log(&log)
        );
    }
}

#[tokio::test]
async fn every_type_of_event_changes_the_tables_alone() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let account_id = stage.account_with_links("every", 0).await;
    let mut followers = stage.followers();
    for event in every_change(pool, account_id, "every").await {
        let event_type = event.event_type();
        stage.append(account_id, &[event]).await;
        let log = stage.log().await;
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
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("batch", 4).await;
    let links = stage.append_links(account_id, "more", 4).await;
    stage.followers().cycle(stage.log().await).await.unwrap();
    let later = stage.append_links(account_id, "later", 4).await;
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
        stage.append(account_id, &events).await;
    }
    let log = stage.log().await;
    stage.followers().cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn suspended_account_is_stopped_until_resumed() {
    let stage = Stage::set().await;
    let (link, mut followers) = projected_link(&stage).await;
    let account_id = link.account_id;
    for (event, then) in [
        (suspended(account_id, false), false),
        (suspended(account_id, true), true),
        (suspended(account_id, true), true),
        (suspended(account_id, false), false),
        (suspended(account_id, true), true),
        (resumed(account_id), false),
    ] {
        stage.append(account_id, &[event]).await;
        followers.cycle(stage.log().await).await.unwrap();
        assert_eq!(is_stopped(&stage, &link).await, then);
    }
    stage
        .append(
            account_id,
            &[resumed(account_id), suspended(account_id, true)],
        )
        .await;
    followers.cycle(stage.log().await).await.unwrap();
    assert!(is_stopped(&stage, &link).await, "the last one counts");
}

#[tokio::test]
async fn adjustment_adds_entry_and_suspension_only_version() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("ledger", 1).await;
    stage
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
    stage.followers().cycle(stage.log().await).await.unwrap();
    let entries: Vec<(i64, String, i64, i64)> = sqlx::query_as(
        "SELECT version, type, amount, balance_after FROM read_model.credit_entries
         ORDER BY version",
    )
    .fetch_all(stage.database.pool())
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
            .fetch_one(stage.database.pool())
            .await
            .unwrap();
    assert_eq!(balance, (1_000_000, 5));
}
