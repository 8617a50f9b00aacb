//! Trouble that passes by itself.

use crate::stage::Stage;

#[tokio::test]
async fn a_projector_survives_the_loss_of_its_sessions() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("before", 10).await;
    let projector = stage.projector("group").await;
    for name in ["during", "later", "last"] {
        let published = stage.log().await.len();
        stage.append_links(account_id, name, 10).await;
        stage.publish(&stage.log().await[published..]).await;
        sqlx::query!(
            "
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name <> 'test'
            "
        )
        .fetch_one(stage.database.pool())
        .await
        .unwrap();
    }
    stage.eventually_complete().await;
    projector.stop().await;
}
