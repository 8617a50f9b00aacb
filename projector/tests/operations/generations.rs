//! Creation and removal of generations, and leftovers of them that do not stop a rebuild.

use std::collections::BTreeSet;

use linkledger_event_store::transaction::PoolTransaction;
use linkledger_projector::{
    operations::{
        rebuild::{generation, plan},
        verify::{self, GenerationTarget, outcome},
    },
    read_models::{Projection, tables},
};

use crate::{
    fixture::Fixture,
    rebuild::{NO_SWAP, TO_SWAP, append_one_of_each, rebuild_links, sessions},
    tables::Tables,
};

/// A fixture on which all is applied.
async fn served_fixture() -> Fixture {
    let fixture = Fixture::new().await;
    append_one_of_each(&fixture, "before").await;
    fixture.apply_log().await;
    fixture
}

#[tokio::test]
async fn dropped_generation_number_is_not_reused() {
    let fixture = served_fixture().await;
    let pool = sessions(&fixture);
    rebuild_links(&pool, NO_SWAP).await.unwrap();
    sqlx::query("DELETE FROM read_model.links WHERE generation = 2")
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let target = GenerationTarget {
        projection: Projection::Links,
        generation: 2,
    };
    let verified = verify::verify_generation(&pool.clone().into(), target, &|_| ())
        .await
        .unwrap();
    outcome::record(&pool, &verified).await.unwrap();
    for _ in 0..2 {
        let error = rebuild_links(&pool, TO_SWAP).await.unwrap_err();
        let text = format!("{error:#}");
        let way_out = "`projector drop links 2`, then `projector rebuild links`";
        assert!(text.contains(way_out), "{text}");
    }
    generation::drop_all(&pool, Projection::Links, 2)
        .await
        .unwrap();
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM read_model.verifications")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(kept, 0);
    let planned = plan::plan(&pool.clone().into(), Projection::Links)
        .await
        .unwrap();
    assert_eq!(planned.build.generation, 3);
    let rebuilt = rebuild_links(&pool, TO_SWAP).await.unwrap();
    assert_eq!((rebuilt.generation, rebuilt.served), (3, true));
    let again = generation::create(&pool, Projection::Links, 2, 1).await;
    let text = format!("{:#}", again.unwrap_err());
    assert!(text.contains("the number 2 was given"), "{text}");
}

#[tokio::test]
async fn locked_table_does_not_block_rebuild() {
    let fixture = served_fixture().await;
    let pool = sessions(&fixture);
    rebuild_links(&pool, NO_SWAP).await.unwrap();
    let mut other = PoolTransaction::begin(fixture.database.pool())
        .await
        .unwrap();
    // As an ANALYZE or a VACUUM that takes long.
    sqlx::query("LOCK TABLE read_model.links_2 IN SHARE UPDATE EXCLUSIVE MODE")
        .execute(&mut *other)
        .await
        .unwrap();
    assert!(rebuild_links(&pool, TO_SWAP).await.unwrap().served);
    other.rollback().await.unwrap();
}

#[tokio::test]
async fn generations_have_the_described_tables() {
    let fixture = Fixture::new().await;
    for projection in Projection::ALL {
        let created: Vec<String> =
            sqlx::query_scalar("SELECT table_name FROM read_model.projection_tables($1)")
                .bind(projection.name())
                .fetch_all(fixture.database.pool())
                .await
                .unwrap();
        let described = tables(projection).iter().map(|table| table.name.to_owned());
        let (created, described): (BTreeSet<_>, BTreeSet<_>) =
            (created.into_iter().collect(), described.collect());
        assert_eq!(created, described, "{projection}");
    }
}

#[tokio::test]
async fn only_tables_of_the_projection_are_analyzed() {
    let fixture = served_fixture().await;
    let analyze = "SELECT read_model.analyze_table('links', 'redirects', 1)";
    let refused = sqlx::query(analyze).execute(fixture.database.pool()).await;
    assert!(refused.is_err());
    let analyze = "SELECT read_model.analyze_table('links', 'links', 1)";
    sqlx::query(analyze)
        .execute(fixture.database.pool())
        .await
        .unwrap();
}

#[tokio::test]
async fn rebuild_refuses_log_that_lost_events() {
    let fixture = served_fixture().await;
    let pool = sessions(&fixture);
    rebuild_links(&pool, NO_SWAP).await.unwrap();
    for lost in [5, 5_000] {
        sqlx::query(
            "UPDATE read_model.checkpoints SET position = position + $1
             WHERE role = 'live' AND position > 0",
        )
        .bind(lost)
        .execute(fixture.database.pool())
        .await
        .unwrap();
        let planned = plan::plan(&pool.clone().into(), Projection::Links)
            .await
            .map(|_| ());
        let rebuilt = rebuild_links(&pool, TO_SWAP).await.map(|_| ());
        for refused in [planned, rebuilt] {
            let text = format!("{:#}", refused.unwrap_err());
            assert!(
                text.contains("the log has lost events") && text.contains("log epoch raise"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn rebuild_says_that_a_paused_projection_moves() {
    let fixture = served_fixture().await;
    let pool = sessions(&fixture);
    sqlx::query("UPDATE read_model.checkpoints SET paused_at = now() WHERE role = 'live'")
        .execute(fixture.database.pool())
        .await
        .unwrap();
    append_one_of_each(&fixture, "after").await;
    let told = rebuild_links(&pool, NO_SWAP).await.unwrap().to_string();
    assert!(!told.contains("has moved"), "{told}");
    let rebuilt = rebuild_links(&pool, TO_SWAP).await.unwrap();
    let told = rebuilt.to_string();
    assert!(
        told.contains("paused") && told.contains("has moved it to the head"),
        "{told}"
    );
    let tables = Tables::read_generation(&pool, 2).await;
    assert_eq!(tables.links, Tables::of_log(&fixture.log().await).links);
    let paused: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM read_model.checkpoints
         WHERE projection = 'links' AND generation = 2 AND paused_at IS NOT NULL",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(paused, 16);
}
