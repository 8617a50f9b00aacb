//! Reads from a streaming replica whose replay is paused and resumed.

use std::time::Duration;

use linkledger_core::{commands::CreateResult, config::Secret, projection::Projection};
use linkledger_testing as testing;
use linkledger_testing::{ReplicatedDatabase, TestDatabase};
use serde_json::Value;
use sqlx::PgPool;

use crate::{
    read_tables::{
        announce_change, insert_appended_link, insert_redirect, set_checkpoint, update_redirect,
    },
    service::{Answer, TestCaller, TestService, token_of},
};

/// Lag of the replica in the tests of visibility, in seconds.
const LAG: Duration = Duration::from_secs(2);

/// A service that reads from the replica, and a caller with one link.
struct Fixture {
    database: ReplicatedDatabase,
    service: TestService,
    caller: TestCaller,
    link: CreateResult,
}

impl Fixture {
    async fn new() -> Self {
        let database = ReplicatedDatabase::create().await;
        let url = database.replica_url.clone();
        let service = TestService::start_with(database.primary.share(), |config| {
            config.read_replica_urls = vec![Secret::from(url)];
            config.redirect_cache_mib = 1;
        })
        .await;
        let caller = service.caller().await;
        let link = create(&service, &caller, "first").await;
        database.wait_for_replica().await;
        let fixture = Self {
            database,
            service,
            caller,
            link,
        };
        fixture.pause().await;
        fixture
    }

    /// Pauses the replay, and changes the version of the first link from 1 to 2 on the primary.
    async fn pause(&self) {
        self.database.pause().await;
        let pool = self.database.primary.pool();
        sqlx::query("UPDATE read_model.links SET version = 2")
            .execute(pool)
            .await
            .unwrap();
        self.until_replica_is_read().await;
    }

    /// Waits until a read shows the first link as the replica has it.
    async fn until_replica_is_read(&self) {
        testing::eventually("the replica is read", async || {
            let read = self.get(&self.link).await;
            (read.header("etag") == Some("\"1\"")).then_some(())
        })
        .await;
    }

    async fn get(&self, link: &CreateResult) -> Answer {
        let path = format!("/v1/links/{}", link.link.link_id);
        self.service.get(&self.caller, &path).await
    }

    async fn listed(&self, headers: &[(&str, &str)]) -> usize {
        let list = self
            .service
            .get_with(&self.caller, "/v1/links", headers)
            .await;
        list.json()["items"].as_array().unwrap().len()
    }
}

/// Appends a link, and writes its rows as the projector does.
async fn create(service: &TestService, caller: &TestCaller, slug: &str) -> CreateResult {
    let link = service.append_link(caller, slug).await;
    apply(service.pool(), caller, &link).await;
    link
}

async fn apply(pool: &PgPool, caller: &TestCaller, link: &CreateResult) {
    insert_appended_link(pool, link).await;
    insert_redirect(pool, link).await;
    for projection in Projection::ALL.map(Projection::name) {
        set_checkpoint(pool, projection, caller.account_id, link.position).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn link_missing_on_lagging_replica_is_read_from_primary() {
    let fixture = Fixture::new().await;
    let link = create(&fixture.service, &fixture.caller, "second").await;
    fixture.database.wait_for_lag(LAG).await;
    assert_eq!(fixture.get(&link).await.status, 200);
    assert_eq!(fixture.service.follow("/second").await.status, 302);
    // The replica is still in use: other reads are as old as the replica.
    fixture.until_replica_is_read().await;
    testing::eventually("the list is as old as the replica", async || {
        (fixture.listed(&[]).await == 1).then_some(())
    })
    .await;
    let token = token_of(&link, 1);
    assert_eq!(fixture.listed(&[("consistency-token", &token)]).await, 2);

    fixture.database.resume().await;
    testing::eventually("the replica has the second link", async || {
        (fixture.listed(&[]).await == 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn later_page_of_list_is_read_from_primary() {
    let fixture = Fixture::new().await;
    fixture.database.resume().await;
    create(&fixture.service, &fixture.caller, "second").await;
    fixture.database.wait_for_replica().await;
    fixture.database.pause().await;
    sqlx::query("UPDATE read_model.links SET destination_url = 'https://example.com/changed'")
        .execute(fixture.database.primary.pool())
        .await
        .unwrap();
    let page = async |path: &str| fixture.service.get(&fixture.caller, path).await.json();
    let changed =
        |page: &Value| page["items"][0]["destination_url"] == "https://example.com/changed";
    let first = testing::eventually("the first page is read from the replica", async || {
        let first = page("/v1/links?limit=1").await;
        (!changed(&first)).then_some(first)
    })
    .await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let later = page(&format!("/v1/links?limit=1&cursor={cursor}")).await;
    assert!(changed(&later), "{later}");
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_and_tags_are_read_from_primary() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.primary.pool();
    let (account_id, link_id) = (fixture.caller.account_id, fixture.link.link.link_id);
    sqlx::query("INSERT INTO read_model.link_tags VALUES (1, $1, 'spring', $2)")
        .bind(account_id.uuid())
        .bind(link_id.uuid())
        .execute(pool)
        .await
        .unwrap();
    let tags = fixture
        .service
        .get(&fixture.caller, "/v1/tags")
        .await
        .json();
    assert_eq!(tags["items"][0]["tag"], "spring", "{tags}");
    let found = fixture.service.get(&fixture.caller, "/v1/links?tag=spring");
    let found = found.await.json();
    assert_eq!(found["items"][0]["id"], link_id.to_string(), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn link_missing_on_replica_and_primary_is_503() {
    let fixture = Fixture::new().await;
    let link = fixture.service.append_link(&fixture.caller, "third").await;
    fixture.get(&link).await.assert_read_model_behind();
    assert_eq!(fixture.service.follow("/third").await.status, 503);
    let token = token_of(&link, 1);
    let path = format!("/v1/links/{}", fixture.link.link.link_id);
    let headers = [("consistency-token", token.as_str())];
    let read = fixture
        .service
        .get_with(&fixture.caller, &path, &headers)
        .await;
    read.assert_read_model_behind();
}

#[tokio::test(flavor = "multi_thread")]
async fn change_ends_redirect_while_replica_lags() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.service.follow("/first").await.status, 302);
    let pool = fixture.database.primary.pool();
    update_redirect(pool, "first", "https://example.com/", "deleted").await;
    announce_change(pool, Some("first"), None).await;
    testing::eventually("the redirect ends", async || {
        (fixture.service.follow("/first").await.status == 410).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_replicas_are_skipped() {
    let (database, other) = (TestDatabase::create().await, TestDatabase::create().await);
    // No process listens at the first address; the second one is a primary.
    let urls = ["postgres://nobody@127.0.0.1:1/nothing", other.url()];
    let service = TestService::start_with(database, |config| {
        config.read_replica_urls = urls.map(|url| Secret::from(url.to_owned())).to_vec();
    })
    .await;
    for slug in ["first", "second", "third"] {
        let caller = service.caller().await;
        let link = create(&service, &caller, slug).await;
        let path = format!("/v1/links/{}", link.link.link_id);
        assert_eq!(service.get(&caller, &path).await.status, 200);
    }
}
