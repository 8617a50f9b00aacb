//! Events that can't be applied end the projector; none is skipped.

use linkledger_core::{cloud_event::PublishedEvent, id::LinkId, shard::Shard};
use uuid::Uuid;

use crate::{events::disabled, stage::Stage, tables::Tables};

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

#[tokio::test]
async fn a_change_of_a_link_that_the_log_does_not_have_is_named_after_what_precedes_it_was_applied()
{
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("poison", 1).await;
    let mut link = stage.append_links(account_id, "other", 1).await.remove(0);
    stage.append(account_id, &[disabled(&link)]).await;
    let mut log = stage.log().await;
    link.link_id = LinkId::from_uuid(Uuid::nil());
    log[5].event.payload = disabled(&link).to_payload();
    let error = stage.engine().cycle(log.clone()).await.unwrap_err();
    let shard = Shard::of(account_id);
    let expected = format!("can't apply the event `LinkDisabled` at position 6 of shard {shard}");
    assert_eq!(error.to_string(), expected);
    let cause = format!("the event store lacks the creation of `{}`", link.link_id);
    assert_eq!(error.root_cause().to_string(), cause);
    let tables = Tables::read(stage.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&log[..5]));
}
