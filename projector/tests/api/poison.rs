//! Events that can't be applied end the projector; none is skipped.

use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};

use crate::{stage::Stage, tables::Tables};

async fn log_with(
    stage: &Stage,
    change: impl FnOnce(&mut PublishedEvent),
) -> (Vec<PublishedEvent>, Shard) {
    let account_id = stage.account_with_links("poison", 10).await;
    let mut log = stage.log().await;
    change(&mut log[7]);
    (log, Shard::of(account_id))
}

#[tokio::test]
async fn an_unknown_event_is_named_after_what_precedes_it_was_applied() {
    let stage = Stage::set().await;
    let change = |it: &mut PublishedEvent| it.event.event_type = "LinkPainted".to_owned();
    let (log, shard) = log_with(&stage, change).await;
    let error = stage.engine().cycle(log.clone()).await.unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        format!(
            "can't apply the event `LinkPainted` at position 8 of shard {shard}: unknown event \
             `LinkPainted` version 1"
        )
    );
    let tables = Tables::read(stage.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&log[..7]));
}

#[tokio::test]
async fn an_event_that_the_database_refuses_is_named_after_what_precedes_it_was_applied() {
    let stage = Stage::set().await;
    let change = |it: &mut PublishedEvent| {
        // Text in Postgres has no NUL.
        it.event.payload = it
            .event
            .payload
            .replace("https://example.com", r"https://\u0000");
    };
    let (log, shard) = log_with(&stage, change).await;
    let error = stage.engine().cycle(log.clone()).await.unwrap_err();
    let expected = format!("can't apply the event `LinkCreated` at position 8 of shard {shard}");
    assert_eq!(error.to_string(), expected);
    let tables = Tables::read(stage.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&log[..7]));
}
