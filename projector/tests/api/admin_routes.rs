//! The admin API of the projector: the status, and pauses of followers.

mod access;
mod followers;
mod order_of_checks;
mod status;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode},
};
use http_body_util::BodyExt as _;
use linkledger_core::{
    api_key::{AdminKey, AdminScope},
    clock::{Clock as _, SystemClock, new_uuid},
    id::AdminKeyId,
};
use linkledger_event_store::admin_keys::{self, NewAdminKey};
use linkledger_projector::{Config, admin_routes};
use linkledger_service::lifecycle::Serve as _;
use linkledger_testing::{eventually, record};
use serde_json::{Value, json};
use sqlx::{PgPool, raw_sql};

use crate::fixture::{BASE_URL, Fixture};

const STATUS: &str = "/admin/v1/status";
const HOST: &str = "10.2.3.4:8088";
const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

/// The admin API on the database of a fixture, and an admin key with all scopes.
struct AdminApi {
    fixture: Fixture,
    routes: Router,
    key_id: AdminKeyId,
    key: AdminKey,
}

/// Answer of the admin API.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl AdminApi {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let fixture = Fixture::new().await;
        let mut config = fixture.config();
        change(&mut config);
        let (key_id, key) = admin_key(fixture.database.pool(), &AdminScope::ALL).await;
        Self {
            routes: admin_routes::router(&config).unwrap(),
            fixture,
            key_id,
            key,
        }
    }

    /// Starts the admin API with the rights of the projector.
    async fn start_with_rights() -> Self {
        let api = Self::start_with(|config| {
            let url = config.databases.log_url();
            let url = format!("{url}?options[role]=linkledger_projector");
            config.databases.database_url = url.clone().into();
            config.databases.read_database_url = Some(url.into());
        });
        let api = api.await;
        raw_sql(ROLES).execute(api.pool()).await.unwrap();
        api
    }

    fn pool(&self) -> &PgPool {
        self.fixture.database.pool()
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let (head, body) = self.routes.answer(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        record::answer(&head.headers, &body);
        Answer {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Reads the status, again while the database takes too long for it, as on a slow machine.
    async fn status(&self) -> Answer {
        eventually("the status is read", async || {
            let answer = self.send(get(STATUS, &self.key)).await;
            (answer.status != 503).then_some(answer)
        })
        .await
    }

    /// Pauses or resumes a follower with a reason.
    async fn change(&self, follower: &str, operation: &str) -> Answer {
        let path = path(follower, operation);
        let body = json!({ "reason": "ticket 7" });
        self.send(post(&path, &self.key, body.to_string())).await
    }

    /// Returns command, follower, operator and reason of each recorded command.
    async fn recorded(&self) -> Vec<[String; 4]> {
        let recorded: Vec<(String, String, String, String)> = sqlx::query_as(
            "SELECT command, coalesce(projection, subject), operator, reason
             FROM read_model.operations ORDER BY operation_id",
        )
        .fetch_all(self.pool())
        .await
        .unwrap();
        let recorded = recorded.into_iter();
        recorded.map(<[String; 4]>::from).collect()
    }
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{}", self.body);
        assert_eq!(problem["type"], format!("{BASE_URL}/docs/problems/{code}"));
    }
}

/// Issues an admin key.
async fn admin_key(pool: &PgPool, scopes: &[AdminScope]) -> (AdminKeyId, AdminKey) {
    let secret = AdminKey::generate();
    record::secret(record::Secret::ApiKey, secret.reveal());
    let now = SystemClock.now();
    let key = NewAdminKey {
        key_id: AdminKeyId::from_uuid(new_uuid(now)),
        secret: &secret,
        name: "test",
        scopes,
        created_at: now,
        created_by: "test",
        expires_at: None,
    };
    admin_keys::insert(pool, &key).await.unwrap();
    (key.key_id, secret)
}

/// Returns the path of a change of a follower.
fn path(follower: &str, operation: &str) -> String {
    format!("/admin/v1/followers/{follower}/{operation}")
}

fn get(path: &str, key: &AdminKey) -> Request<Body> {
    request(Method::GET, path, key.reveal(), Body::empty())
}

fn post(path: &str, key: &AdminKey, body: String) -> Request<Body> {
    request(Method::POST, path, key.reveal(), body.into())
}

fn request(method: Method, path: &str, token: &str, body: Body) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", HOST)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}
