//! A parked account: its events wait outside of the read tables. Existing rows are still served, and reads that may miss events
//! get `read_model_behind` at once.

use linkledger_core::{commands::CreateResult, projection::Projection};

use crate::{
    read_tables::{
        Entry, insert_appended_link, insert_entry, insert_redirect, park_account, set_checkpoint,
    },
    service::{Answer, TestCaller, TestService, paths_without_id, read_paths, token_of},
};

/// A parked account with two links. The read tables only have the first link.
struct Fixture {
    service: TestService,
    caller: TestCaller,
    visible: CreateResult,
    parked: CreateResult,
}

impl Fixture {
    async fn new() -> Self {
        let service = TestService::start().await;
        let caller = service.caller().await;
        let (account_id, pool) = (caller.account_id, service.pool());
        let visible = service.append_link(&caller, "visible").await;
        insert_appended_link(pool, &visible).await;
        insert_redirect(pool, &visible).await;
        insert_entry(pool, account_id, Entry::grant(1, 5, 5)).await;
        let parked = service.append_link(&caller, "parked").await;
        for projection in Projection::ALL.map(Projection::name) {
            park_account(pool, projection, account_id, parked.position - 1).await;
            // The checkpoint is later than all waiting events.
            set_checkpoint(pool, projection, account_id, parked.position).await;
        }
        Self {
            service,
            caller,
            visible,
            parked,
        }
    }

    /// Returns the answer to a request; panics if the request waits for a checkpoint.
    async fn at_once(&self, request: impl Future<Output = Answer>) -> Answer {
        tokio::select! {
            biased;
            answer = request => answer,
            () = self.service.until_a_request_waits() => panic!("it waits"),
        }
    }

    async fn get(&self, path: &str, token: Option<&str>) -> Answer {
        let headers: Vec<_> = token
            .map(|it| ("consistency-token", it))
            .into_iter()
            .collect();
        let request = self.service.get_with(&self.caller, path, &headers);
        self.at_once(request).await
    }
}

fn paths(scene: &Fixture) -> Vec<String> {
    let mut paths = read_paths(&scene.visible.link.link_id.to_string());
    // Statistics of clicks do not come from the log, and the event store answers a history, a feed, and reads of
    // webhooks: none waits for a position.
    let is_waiting = |path: &str| {
        let is_of_log =
            ["/v1/events", "/v1/webhooks"].contains(&path) || path.ends_with("/history");
        !path.contains("/clicks") && !is_of_log
    };
    paths.retain(|path| is_waiting(path));
    paths.push("/v1/links?slug=visible".to_owned());
    paths.push("/v1/links?destination_url=https://example.com/visible".to_owned());
    paths
}

#[tokio::test]
async fn reads_with_token_fail_at_once() {
    let scene = Fixture::new().await;
    let token = token_of(&scene.parked, 1);
    for path in paths(&scene) {
        let answer = scene.get(&path, Some(&token)).await;
        answer.assert_read_model_behind();
    }
    // An earlier checkpoint does not make the read wait either.
    for projection in Projection::ALL.map(Projection::name) {
        set_checkpoint(scene.service.pool(), projection, scene.caller.account_id, 0).await;
    }
    for path in paths(&scene) {
        let answer = scene.get(&path, Some(&token)).await;
        answer.assert_read_model_behind();
    }
}

#[tokio::test]
async fn reads_without_token_serve_stale_rows() {
    let scene = Fixture::new().await;
    for path in paths(&scene) {
        let answer = scene.get(&path, None).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    let list = scene.get("/v1/links", None).await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let followed = scene.at_once(scene.service.follow("/visible")).await;
    assert_eq!(followed.status, 302);
}

#[tokio::test]
async fn waiting_link_is_503_never_404() {
    let scene = Fixture::new().await;
    let path = format!("/v1/links/{}", scene.parked.link.link_id);
    let pool = scene.service.pool();
    for position in [scene.parked.position, 0] {
        for projection in Projection::ALL.map(Projection::name) {
            set_checkpoint(pool, projection, scene.caller.account_id, position).await;
        }
        scene.get(&path, None).await.assert_read_model_behind();
        let headers = [("accept", "application/json")];
        let follow = scene
            .service
            .call_short_host(axum::http::Method::GET, "/parked", &headers);
        scene.at_once(follow).await.assert_read_model_behind();
    }
}

#[tokio::test]
async fn other_and_released_accounts_are_served() {
    let scene = Fixture::new().await;
    let (service, pool) = (&scene.service, scene.service.pool());
    let other = service.caller().await;
    let link = service.append_link(&other, "other").await;
    insert_appended_link(pool, &link).await;
    for projection in Projection::ALL.map(Projection::name) {
        set_checkpoint(pool, projection, other.account_id, link.position).await;
    }
    let token = token_of(&link, 1);
    let headers = [("consistency-token", token.as_str())];
    for path in paths_without_id() {
        let answer = service.get_with(&other, path, &headers).await;
        assert_eq!(answer.status, 200, "{path}");
    }

    sqlx::query("DELETE FROM read_model.parked_accounts")
        .execute(pool)
        .await
        .unwrap();
    insert_appended_link(pool, &scene.parked).await;
    for projection in Projection::ALL.map(Projection::name) {
        set_checkpoint(
            pool,
            projection,
            scene.caller.account_id,
            scene.parked.position,
        )
        .await;
    }
    let token = token_of(&scene.parked, 1);
    let path = format!("/v1/links/{}", scene.parked.link.link_id);
    assert_eq!(scene.get(&path, Some(&token)).await.status, 200);
}

#[tokio::test]
async fn unparked_projection_serves_parked_account() {
    let scene = Fixture::new().await;
    let token = token_of(&scene.parked, 1);
    sqlx::query("DELETE FROM read_model.parked_accounts WHERE projection = 'credits'")
        .execute(scene.service.pool())
        .await
        .unwrap();
    assert_eq!(scene.get("/v1/credits", Some(&token)).await.status, 200);
    scene
        .get("/v1/links", Some(&token))
        .await
        .assert_read_model_behind();
}

#[tokio::test]
async fn parking_in_inactive_generation_is_ignored() {
    let scene = Fixture::new().await;
    let token = token_of(&scene.parked, 1);
    sqlx::query("UPDATE read_model.parked_accounts SET generation = 2")
        .execute(scene.service.pool())
        .await
        .unwrap();
    assert_eq!(scene.get("/v1/links", Some(&token)).await.status, 200);
}
