//! Skipping of an event: later events are applied, and the skipped event never comes back.

use linkledger_core::{
    cloud_event::PublishedEvent, id::AccountId, link::LinkCreated, shard::Position,
};
use linkledger_projector::{
    operations::{
        parked::{RetriedAccount, SkipRequest, retry, skip},
        pause::{FollowerName, PauseChange, change},
    },
    read_models::Projection,
};
use sqlx::{PgPool, raw_sql};

use crate::{
    events::{deleted, destination_changed, disabled, enabled},
    fixture::Fixture,
    poisoned::{paint, parkings, restore},
    rebuild::{TO_SWAP, rebuild_all, sessions},
    tables::Tables,
    verified::assert_nothing_is_wrong,
};

fn request(account_id: AccountId) -> SkipRequest<'static> {
    SkipRequest {
        account_id,
        position: None,
        operator: "ada",
        reason: "ticket 7",
    }
}

/// Skips the poison event of the account, and applies the waiting events.
async fn skip_and_retry(pool: &PgPool, account_id: AccountId) -> Vec<RetriedAccount> {
    skip(&pool.clone().into(), request(account_id))
        .await
        .unwrap();
    retry(&pool.clone().into(), Some(account_id)).await.unwrap()
}

/// Returns a parked account, its intact log, and the position of the poison event.
async fn parked(fixture: &Fixture) -> (AccountId, Vec<PublishedEvent>, Position) {
    let account_id = fixture.account_with_links("parked", 4).await;
    let log = fixture.log().await;
    // Event 4 is a charge: creations have even positions.
    paint(fixture.database.pool(), &log[4]).await;
    fixture.apply_log().await;
    (account_id, log, 5)
}

#[tokio::test]
async fn skipped_event_stays_skipped_and_rest_applies() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, log, position) = parked(&fixture).await;
    let skipped = skip(&pool.clone().into(), request(account_id))
        .await
        .unwrap();
    assert_eq!(skipped.position, position);
    assert_eq!(skipped.projections, Projection::ALL.map(Projection::name));
    let retried = retry(&pool.clone().into(), Some(account_id)).await.unwrap();
    assert!(
        retried.iter().all(|it| it.released && it.applied == 4),
        "{retried:?}"
    );
    let expected = Tables::of_log_but(&log, |it| it.event.position == position);
    assert_eq!(Tables::read(pool).await, expected);

    // A replay from the beginning gives the same rows.
    raw_sql("UPDATE read_model.checkpoints SET position = 0")
        .execute(pool)
        .await
        .unwrap();
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    assert_eq!(parkings(pool, account_id).await, []);
    assert_eq!(Tables::read(pool).await, expected);
}

#[tokio::test]
async fn skip_records_operator_and_reason() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, ..) = parked(&fixture).await;
    skip_and_retry(pool, account_id).await;
    let recorded: Vec<(String, String, String, String, String)> = sqlx::query_as(
        "SELECT projection, subject, operator, reason, detail FROM read_model.operations
         WHERE command = 'parked skip' AND outcome = 'done' ORDER BY operation_id",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let row = |projection: Projection| {
        let detail = "`LinkPainted` at position 5 is skipped";
        let subject = account_id.to_string();
        let texts = [projection.name(), &subject, "ada", "ticket 7", detail];
        texts.map(str::to_owned).into()
    };
    assert_eq!(recorded, Projection::ALL.map(row));
}

#[tokio::test]
async fn event_after_skipped_creation_writes_the_rows() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("other", 1).await;
    let links: Vec<LinkCreated> = fixture.append_links(account_id, "painted", 3).await;
    let (changed, gone, bare) = (&links[0], &links[1], &links[2]);
    let events = [
        destination_changed(changed, "https://e.com/"),
        disabled(changed),
        deleted(gone),
    ];
    fixture.append(account_id, &events).await;
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    let is_creation = |it: &PublishedEvent| {
        let streams = links.iter().map(|link| link.link_id.uuid());
        it.event.version == 1 && streams.collect::<Vec<_>>().contains(&it.event.stream_id)
    };
    for creation in log.iter().filter(|it| is_creation(it)) {
        paint(pool, creation).await;
    }
    followers.cycle(fixture.log().await).await.unwrap();
    for _ in [changed, gone] {
        let retried = skip_and_retry(pool, account_id).await;
        assert!(
            retried.iter().all(|it| !it.released && it.applied == 1),
            "{retried:?}"
        );
    }
    let last = skip_and_retry(pool, account_id).await;
    assert!(last.iter().all(|it| it.released), "{last:?}");
    let expected = Tables::of_log_but(&log, is_creation);
    let key = |link: &LinkCreated| (account_id.uuid(), link.link_id.uuid());
    assert!(expected.links.contains_key(&key(changed)));
    assert!(!expected.links.contains_key(&key(bare)));
    assert_eq!(Tables::read(pool).await, expected);
    assert_nothing_is_wrong(&fixture).await;

    // Followers give the same rows, in a batch with events of others.
    let applied = log.len();
    for creation in log.iter().filter(|it| is_creation(it)) {
        restore(pool, creation).await;
    }
    fixture.append(account_id, &[enabled(changed)]).await;
    fixture.append_links(account_id, "later", 1).await;
    let news = fixture.log().await.split_off(applied);
    followers.cycle(news.clone()).await.unwrap();
    let log = [log.clone(), news].concat();
    assert_eq!(parkings(pool, account_id).await, []);
    let expected = Tables::of_log_but(&log, is_creation);
    assert_eq!(Tables::read(pool).await, expected);
    assert_nothing_is_wrong(&fixture).await;

    // A rebuild skips the events too, though this release can read them by now.
    for rebuilt in rebuild_all(&sessions(&fixture), TO_SWAP).await {
        assert!(rebuilt.served);
    }
    assert_eq!(parkings(pool, account_id).await, []);
    assert_eq!(Tables::read_generation(pool, 2).await, expected);
}

#[tokio::test]
async fn event_after_skipped_refused_creation_writes_the_row() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let refuse = "CHECK (slug_key <> 'picky-0x' OR destination_url = 'https://e.com/')";
    let refuse = format!("ALTER TABLE read_model.redirects_1 ADD CONSTRAINT picky {refuse}");
    raw_sql(sqlx::AssertSqlSafe(refuse))
        .execute(pool)
        .await
        .unwrap();
    let account_id = fixture.account_with_links("other", 1).await;
    let link = fixture.append_links(account_id, "picky", 1).await.remove(0);
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    followers.cycle(log.clone()).await.unwrap();
    let retried = skip_and_retry(pool, account_id).await;
    assert_eq!(retried.len(), 1);
    assert!(retried[0].released, "{retried:?}");
    let is_creation = |it: &PublishedEvent| it.event.stream_id == link.link_id.uuid();
    let expected = Tables::of_log_but(&log, is_creation);
    let tables = Tables::read(pool).await;
    assert_eq!(tables.redirects, expected.redirects);
    assert_nothing_is_wrong(&fixture).await;

    let events = [
        disabled(&link),
        destination_changed(&link, "https://e.com/"),
    ];
    fixture.append(account_id, &events).await;
    let log_after = fixture.log().await;
    let news = log_after[log.len()..].to_vec();
    followers.cycle(news).await.unwrap();
    assert_eq!(parkings(pool, account_id).await, []);
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log_after));
    assert_nothing_is_wrong(&fixture).await;
}

#[tokio::test]
async fn refused_row_is_skipped_in_its_projection_only() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    raw_sql("ALTER TABLE read_model.links_1 ADD CONSTRAINT picky CHECK (slug <> 'picky-1X')")
        .execute(pool)
        .await
        .unwrap();
    let account_id = fixture.account_with_links("picky", 3).await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let skipped = skip(&pool.clone().into(), request(account_id))
        .await
        .unwrap();
    assert_eq!((skipped.position, skipped.projections), (4, vec!["links"]));
    assert!(retry(&pool.clone().into(), None).await.unwrap()[0].released);
    let (tables, expected) = (Tables::read(pool).await, Tables::of_log(&log));
    assert_eq!(tables.without_links(), expected.without_links());
    assert_eq!(
        tables.links,
        Tables::of_log_but(&log, |it| it.event.position == 4).links
    );
}

#[tokio::test]
async fn each_unapplicable_event_needs_its_own_skip() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, log, _) = parked(&fixture).await;
    paint(pool, &log[5]).await;
    let retried = skip_and_retry(pool, account_id).await;
    assert!(retried.iter().all(|it| !it.released && it.applied == 0));
    let parked: Vec<_> = parkings(pool, account_id).await;
    assert!(parked.iter().all(|it| (it.1, it.4) == (6, 4)), "{parked:?}");
    let error = skip(
        &pool.clone().into(),
        SkipRequest {
            position: Some(5),
            ..request(account_id)
        },
    )
    .await;
    let expected = format!("`{account_id}` is parked for the event at position 6, not 5");
    assert_eq!(error.unwrap_err().to_string(), expected);
}

#[tokio::test]
async fn event_of_a_restored_log_is_not_skipped() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, ..) = parked(&fixture).await;
    skip(&pool.clone().into(), request(account_id))
        .await
        .unwrap();
    raw_sql("UPDATE read_model.skipped_events SET event_id = gen_random_uuid()")
        .execute(pool)
        .await
        .unwrap();
    let retried = retry(&pool.clone().into(), Some(account_id)).await.unwrap();
    assert!(retried.iter().all(|it| !it.released));
}

#[tokio::test]
async fn paused_projection_refuses_retry_and_skip() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, log, _) = parked(&fixture).await;
    let before = Tables::read(pool).await;
    change(pool, &FollowerName::ALL, PauseChange::Pause, "ada", None)
        .await
        .unwrap();
    let error = skip(&pool.clone().into(), request(account_id))
        .await
        .unwrap_err();
    let first = Projection::ALL[0];
    let expected = format!("`{first}` is paused; run `projector resume {first}` first");
    assert_eq!(error.to_string(), expected);
    restore(pool, &log[4]).await;
    for asked in [Some(account_id), None] {
        let retried = retry(&pool.clone().into(), asked).await.unwrap();
        assert_eq!(retried.len(), Projection::ALL.len());
        assert_eq!(retried[0].detail.as_ref(), Some(&expected));
        assert!(retried.iter().all(|it| !it.released && it.applied == 0));
    }
    assert_eq!(Tables::read(pool).await, before);

    change(pool, &FollowerName::ALL, PauseChange::Resume, "ada", None)
        .await
        .unwrap();
    let retried = skip_and_retry(pool, account_id).await;
    assert!(retried.iter().all(|it| it.released), "{retried:?}");
}
