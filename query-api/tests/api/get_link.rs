//! `GET /v1/links/{id}`: the link, entity tags, misses, tokens, generations.

use futures::future::join_all;
use linkledger_core::id::LinkId;
use linkledger_testing::TestDatabase;
use serde_json::json;
use sqlx::{Executor as _, PgPool};
use tokio::join;

use crate::{
    read_tables::{body_of, insert_appended_link, set_checkpoint, unused_link_id},
    service::{TestService, read_routes, token_of},
};

fn path(link_id: LinkId) -> String {
    format!("/v1/links/{link_id}")
}

async fn set_epoch(pool: &PgPool, epoch: i32) {
    sqlx::query("UPDATE event_store.log_meta SET epoch = $1")
        .bind(epoch)
        .execute(pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn link_has_all_members_and_strong_etag() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "Sommer-Fest").await;
    insert_appended_link(service.pool(), &link).await;
    let answer = service.get(&caller, &path(link.link.link_id)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("etag"), Some("\"1\""));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    assert_eq!(answer.json(), body_of(&link));
}

#[tokio::test]
async fn matching_if_none_match_returns_304() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "known").await;
    insert_appended_link(service.pool(), &link).await;
    let path = path(link.link.link_id);
    for known in ["\"1\"", "W/\"1\"", "\"0\", \"1\"", "*"] {
        let headers = [("if-none-match", known)];
        let answer = service.get_with(&caller, &path, &headers).await;
        assert_eq!(answer.status, 304, "{known}");
        assert_eq!(answer.header("etag"), Some("\"1\""), "{known}");
        assert_eq!(answer.body, "", "{known}");
    }
    for other in ["\"2\"", "1", ""] {
        let headers = [("if-none-match", other)];
        assert_eq!(
            service.get_with(&caller, &path, &headers).await.status,
            200,
            "{other}"
        );
    }
    let headers = [("if-none-match", "*")];
    let absent = format!("/v1/links/{}", unused_link_id());
    let answer = service.get_with(&caller, &absent, &headers).await;
    answer.assert_problem(404, "link_not_found");
}

#[tokio::test]
async fn unusable_link_ids_get_same_answer() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let visible = service.append_link(&other, "visible").await;
    insert_appended_link(service.pool(), &visible).await;
    let invisible = service.append_link(&other, "invisible").await;
    let unknown = service.get(&caller, &path(unused_link_id())).await;
    unknown.assert_problem(404, "link_not_found");

    let own_account = LinkId::from_uuid(caller.account_id.uuid());
    let id = unused_link_id().to_string();
    for id in [
        visible.link.link_id.to_string(),
        invisible.link.link_id.to_string(),
        own_account.to_string(),
        id.to_uppercase(),
        id.replace("lnk_", "%6cnk_"),
        id[..id.len() - 1].to_owned(),
        "%FF".to_owned(),
        "lnk_x".to_owned(),
    ] {
        let answer = service.get(&caller, &format!("/v1/links/{id}")).await;
        assert_eq!(answer.status, 404, "{id}");
        let body = answer.body_without_request_id();
        assert_eq!(body, unknown.body_without_request_id(), "{id}");
    }
}

#[tokio::test]
async fn slug_in_place_of_id_names_the_search() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let link = service.append_link(&caller, "spring-sale").await;
    insert_appended_link(service.pool(), &link).await;
    service.append_link(&other, "their-sale").await;
    let routes = read_routes().into_iter();
    let templates = routes
        .map(|route| route.path)
        .filter(|path| path.contains("{id}"));
    for template in templates {
        // The answer does not depend on who has the slug.
        for slug in ["spring-sale", "their-sale", "no-sale"] {
            let answer = service.get(&caller, &template.replace("{id}", slug)).await;
            answer.assert_problem(404, "link_not_found");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            let search = format!("GET /v1/links?slug={slug} ");
            assert!(detail.contains(&search), "{template}: {detail}");
        }
    }
    let found = service.get(&caller, "/v1/links?slug=spring-sale").await;
    assert_eq!(found.status, 200);
}

#[tokio::test]
async fn concurrent_reads_keep_accounts_apart() {
    let service = TestService::start().await;
    let (owner, stranger) = (service.caller().await, service.caller().await);
    let mut link_ids = Vec::new();
    for number in 0..10 {
        let slug = format!("at-once-{number}");
        let link = service.append_link(&owner, &slug).await;
        insert_appended_link(service.pool(), &link).await;
        link_ids.push(link.link.link_id);
    }
    // More requests than one statement takes.
    let requests = link_ids.iter().cycle().take(200).map(async |link_id| {
        let path = path(*link_id);
        let (own, foreign) = join!(service.get(&owner, &path), service.get(&stranger, &path));
        assert_eq!(own.status, 200);
        assert_eq!(foreign.status, 404);
        assert_eq!(own.json()["id"], json!(link_id));
    });
    join_all(requests).await;
}

#[tokio::test]
async fn single_link_rejects_query_parameters() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let answer = service.get(&caller, "/v1/links/x?limit=5").await;
    answer.assert_problem(400, "invalid_parameter");
}

#[tokio::test]
async fn read_waits_for_lagging_link() {
    shows_what_becomes_visible(TestService::start().await).await;
}

#[tokio::test]
async fn waiting_read_survives_shutdown() {
    let service = TestService::start().await;
    service.begin_shutdown();
    shows_what_becomes_visible(service).await;
}

async fn shows_what_becomes_visible(service: TestService) {
    let caller = service.caller().await;
    let link = service.append_link(&caller, "fresh").await;
    let path = path(link.link.link_id);
    let request = || service.get(&caller, &path);
    let answer = service
        .answer_after(request, async {
            insert_appended_link(service.pool(), &link).await;
            // The position of the link's event is enough: the charge follows the link.
            let created_at = link.position - 1;
            set_checkpoint(service.pool(), "links", caller.account_id, created_at).await;
        })
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn lagging_link_is_never_404() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "fresh").await;
    let path = path(link.link.link_id);
    service.get(&caller, &path).await.assert_read_model_behind();
    // A later checkpoint does not make the link 404 either: the log contains the link.
    set_checkpoint(service.pool(), "links", caller.account_id, link.position).await;
    service.get(&caller, &path).await.assert_read_model_behind();
}

#[tokio::test]
async fn token_waits_even_for_visible_link() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "changed").await;
    insert_appended_link(service.pool(), &link).await;
    let token = token_of(&link, 1);
    let headers = [("consistency-token", token.as_str())];
    let path = path(link.link.link_id);
    let request = || service.get_with(&caller, &path, &headers);
    let answer = service
        .answer_after(request, async {
            sqlx::query("UPDATE read_model.links SET version = 2")
                .execute(service.pool())
                .await
                .unwrap();
            set_checkpoint(service.pool(), "links", caller.account_id, link.position).await;
        })
        .await;
    assert_eq!(answer.header("etag"), Some("\"2\""), "{}", answer.body);
}

#[tokio::test]
async fn unusable_token_is_rejected_before_id() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let own = token_of(&service.append_link(&caller, "own").await, 1);
    let foreign = token_of(&service.append_link(&other, "foreign").await, 1);
    let own_twice = [("consistency-token", own.as_str()); 2];
    for headers in [
        &[("consistency-token", "")][..],
        &[("consistency-token", "x")],
        &[("consistency-token", &foreign)],
        &own_twice,
    ] {
        let answer = service.get_with(&caller, "/v1/links/x", headers).await;
        answer.assert_problem(400, "invalid_header");
        assert_eq!(answer.json()["errors"][0]["header"], "Consistency-Token");
    }
}

#[tokio::test]
async fn token_from_before_restore_is_ignored() {
    let database = TestDatabase::create().await;
    set_epoch(database.pool(), 2).await;
    let service = TestService::start_with(database, |_| {}).await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "restored").await;
    insert_appended_link(service.pool(), &link).await;
    let token = token_of(&link, 1);
    let headers = [("consistency-token", token.as_str())];
    let answer = service
        .get_with(&caller, &path(link.link.link_id), &headers)
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn only_active_generation_is_read() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "rebuilt").await;
    insert_appended_link(service.pool(), &link).await;
    let etag = async || {
        let answer = service.get(&caller, &path(link.link.link_id)).await;
        answer.header("etag").map(str::to_owned)
    };
    service
        .pool()
        .execute(sqlx::raw_sql(
            "CREATE TABLE read_model.links_2 PARTITION OF read_model.links FOR VALUES IN (2);
             INSERT INTO read_model.links
                 (generation, account_id, link_id, slug, destination_url, version, created_at)
                 SELECT 2, account_id, link_id, slug, destination_url, 9, created_at
                 FROM read_model.links;
             INSERT INTO read_model.checkpoints SELECT projection, 2, shard, epoch, 99, 'building'
                 FROM read_model.checkpoints WHERE projection = 'links';",
        ))
        .await
        .unwrap();
    assert_eq!(etag().await.as_deref(), Some("\"1\""));
    service
        .pool()
        .execute(
            "UPDATE read_model.projections SET active_generation = 2 WHERE projection = 'links'",
        )
        .await
        .unwrap();
    assert_eq!(etag().await.as_deref(), Some("\"9\""));
}
