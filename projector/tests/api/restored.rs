//! A log that was restored, and the runbook for it.

use crate::{stage::Stage, tables::Tables};

/// The SQL of docs/operations.md.
fn runbook(index: usize) -> &'static str {
    let document = include_str!("../../../docs/operations.md");
    let blocks = document.split("```sql").skip(1);
    let mut blocks = blocks.map(|block| block.split("```").next().unwrap());
    blocks.nth(index).unwrap()
}

async fn apply_until_complete(stage: &Stage) {
    let mut engine = stage.engine();
    let log = stage.log().await;
    for _ in 0..1_000 {
        engine.cycle(Vec::new()).await.unwrap();
        if Tables::read(stage.database.pool()).await == Tables::of_log(&log) {
            return;
        }
    }
    panic!("the read tables do not become what the log says");
}

#[tokio::test]
async fn after_the_runbook_of_a_restore_the_read_tables_follow_the_log_in_the_next_epoch() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("before", 3).await;
    apply_until_complete(&stage).await;
    sqlx::raw_sql("UPDATE event_store.log_meta SET epoch = epoch + 1")
        .execute(stage.database.pool())
        .await
        .unwrap();
    let refused = stage.engine().cycle(Vec::new()).await.unwrap_err();
    assert!(
        refused.to_string().contains("has to be rebuilt"),
        "{refused}"
    );
    for (index, name) in ["kept", "emptied"].into_iter().enumerate() {
        stage.append_links(account_id, name, 2).await;
        sqlx::raw_sql(runbook(index))
            .execute(stage.database.pool())
            .await
            .unwrap();
        apply_until_complete(&stage).await;
    }
    let epoch: i32 = sqlx::query_scalar("SELECT DISTINCT epoch FROM read_model.checkpoints")
        .fetch_one(stage.database.pool())
        .await
        .unwrap();
    assert_eq!(epoch, 3);
}
