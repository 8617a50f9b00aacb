//! `log epoch`: a new epoch for a log that has lost events.

use linkledger_command_api::epoch::{self, Raise};
use linkledger_core::consistency::ConsistencyToken;
use linkledger_service::log_identity;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use serde_json::{Value, json};

use crate::{
    append_only::{OPERATOR, ROLES, pool_of},
    cli,
    relay_fixture::{Recorder, relay, with_links},
    support::{TestApp, create, destination, fresh_key, send},
};

const SHOW: [&str; 3] = ["log", "epoch", "show"];
const RAISE: [&str; 7] = [
    "log",
    "epoch",
    "raise",
    "--reason",
    "restored to 12:00",
    "--operator",
    "ada",
];

fn show(database: &TestDatabase) -> Value {
    cli::json(database.url(), &SHOW)
}

#[tokio::test]
async fn raise_is_recorded_with_remedies() {
    let database = TestDatabase::create().await;
    with_links(&database, 3).await;
    let url = database.url();
    let before = show(&database);
    assert_eq!(
        (&before["epoch"], &before["raises"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(before["remedies"], json!([]));

    let wished = cli::json(url, &[&RAISE[..], &["--dry-run"]].concat());
    assert_eq!(
        (&wished["epoch"], &wished["raised"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(show(&database), before);

    let raised = cli::json(url, &RAISE);
    assert_eq!(
        (&raised["epoch"], &raised["raised"]),
        (&json!(2), &json!(true))
    );
    let after = show(&database);
    assert_eq!(after["epoch"], 2);
    let raise = &after["raises"][0];
    assert_eq!(
        (&raise["by"], &raise["reason"]),
        (&json!("ada"), &json!("restored to 12:00"))
    );
    assert_eq!(
        (&raise["former_epoch"], &raise["epoch"]),
        (&json!(1), &json!(2))
    );
    let heads = raise["heads"].as_array().unwrap();
    assert_eq!(heads.iter().filter_map(Value::as_i64).sum::<i64>(), 6);
    let remedies = after["remedies"].to_string();
    for command in [
        "`command-api relay republish --from 0`",
        "`projector rebuild --all`",
    ] {
        assert!(remedies.contains(command), "{remedies}");
    }
    let text = cli::run(url, &SHOW).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("raised from 1 to 2 by ada, with 6 events: restored to 12:00"),
        "{text}"
    );
}

#[tokio::test]
async fn raise_is_refused_while_a_relay_publishes() {
    let database = TestDatabase::create().await;
    with_links(&database, 1).await;
    let mut running = relay(&database, Recorder::default(), "one");
    running.step().await.unwrap();
    // The lease stays valid however slowly the command starts.
    let hold = "UPDATE event_store.relay_cursors SET lease_expires_at = now() + interval '1 hour'";
    sqlx::query(hold).execute(database.pool()).await.unwrap();
    let refused = cli::error(database.url(), &RAISE, 1);
    assert!(
        refused.starts_with("error: one publishes shard 0: "),
        "{refused}"
    );
    assert_eq!(show(&database)["epoch"], 1);

    // A relay that refuses to publish does not prevent a raise.
    let refuse = "UPDATE event_store.relay_cursors SET refusal = 'lost', refused_at = now()";
    sqlx::query(refuse).execute(database.pool()).await.unwrap();
    assert_eq!(cli::json(database.url(), &RAISE)["epoch"], 2);
}

#[tokio::test]
async fn new_epoch_is_above_published_epochs() {
    let database = TestDatabase::create().await;
    let set = |sql: &'static str| sqlx::raw_sql(sql).execute(database.pool());
    let raise = |arguments: &[&str]| {
        let arguments = [&RAISE[..], arguments].concat();
        cli::json(database.url(), &arguments)["epoch"].clone()
    };
    set("UPDATE event_store.relay_cursors SET lost_epoch = 5 WHERE shard = 3")
        .await
        .unwrap();
    assert_eq!(raise(&[]), 6);
    set("UPDATE event_store.relay_cursors SET epoch = 8 WHERE shard = 4")
        .await
        .unwrap();
    assert_eq!(raise(&[]), 9);
    set("UPDATE read_model.checkpoints SET epoch = 11 WHERE shard = 5")
        .await
        .unwrap();
    assert_eq!(raise(&[]), 12);
    assert_eq!(raise(&["--above", "20"]), 21);
    assert_eq!(raise(&["--above", "20"]), 22);
    assert_eq!(show(&database)["raises"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn migrate_gives_only_unused_read_models_the_epoch() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    sqlx::raw_sql(
        "UPDATE event_store.log_meta SET epoch = 2;
         UPDATE read_model.checkpoints SET position = 5 WHERE projection = 'links' AND shard = 3",
    )
    .execute(pool)
    .await
    .unwrap();
    log_identity::adopt(&pool.clone().into()).await.unwrap();
    let epochs: Vec<(String, i32, i64)> = sqlx::query_as(
        "SELECT projection, epoch, count(*) FROM read_model.checkpoints
         GROUP BY projection, epoch ORDER BY projection",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let expected = [("credits", 2, 16), ("links", 1, 16), ("redirects", 2, 16)];
    let expected = expected.map(|(name, epoch, shards)| (name.to_owned(), epoch, shards));
    assert_eq!(epochs, expected);
}

#[tokio::test]
async fn operator_role_may_raise_the_epoch() {
    let database = TestDatabase::create().await;
    sqlx::raw_sql(ROLES).execute(database.pool()).await.unwrap();
    let pool = pool_of(&database, OPERATOR);
    let raise = Raise {
        above: 0,
        reason: "restored".to_owned(),
        dry_run: false,
    };
    assert_eq!(
        epoch::raise(&pool.clone().into(), raise, "ada".to_owned())
            .await
            .unwrap()
            .epoch,
        2
    );
    assert_eq!(epoch::read(&pool.into()).await.unwrap().raises.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_the_raised_epoch_without_restart() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1_000).await;
    let epoch_of_token = async || {
        let created = send(&app.router, create(&key, fresh_key(), &destination())).await;
        let token = created.header("consistency-token").to_owned();
        ConsistencyToken::decode(&token, account_id).unwrap().epoch
    };
    assert_eq!(epoch_of_token().await, 1);
    let raise = "UPDATE event_store.log_meta SET epoch = 2";
    sqlx::query(raise)
        .execute(app.database.pool())
        .await
        .unwrap();
    testing::eventually("tokens are of epoch 2", async || {
        (epoch_of_token().await == 2).then_some(())
    })
    .await;
}
