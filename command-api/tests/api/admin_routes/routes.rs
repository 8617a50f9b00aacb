//! All routes of the admin API that write, each with a valid request.

use linkledger_core::{api_key::AdminScope, id::EntryId};
use linkledger_http::problem::Code;
use serde_json::{Value, json};

use super::fixture::{ACCOUNTS, AdminApp, text};
use crate::support::{create, destination, fresh_key, send};

/// Id of nothing, without its prefix.
const UNKNOWN: &str = "01h455vb4pex5vsknk084sn02q";

const WEBHOOKS: &str = "/admin/v1/webhooks";

/// A route, with a valid request.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// Path to what does not exist, and the code; `None` if the request makes it.
    pub(super) unknown: Option<(String, Code)>,
    pub(super) scope: AdminScope,
    /// Body; null for a route that takes none.
    pub(super) body: Value,
    /// True for a POST that needs no idempotency key, since it can be repeated.
    pub(super) is_repeatable: bool,
    /// Members of the body with which the state of the account is the reason of a refusal, and its code. With no
    /// member, the state after a first request.
    pub(super) conflict: Option<(Value, Code)>,
}

impl Route {
    fn of_account(account: &str, operation: &str, body: Value) -> Self {
        let unknown = format!("{ACCOUNTS}/acc_{UNKNOWN}{operation}");
        Self {
            method: "POST",
            path: format!("{account}{operation}"),
            unknown: Some((unknown, Code::AccountNotFound)),
            scope: AdminScope::Accounts,
            body,
            is_repeatable: false,
            conflict: None,
        }
    }

    fn of_credits(account: &str, operation: &str, body: Value) -> Self {
        Self {
            scope: AdminScope::Credits,
            ..Self::of_account(account, operation, body)
        }
    }

    fn of_key(key: &str, method: &'static str, operation: &str, body: Value) -> Self {
        let unknown = format!("/admin/v1/keys/key_{UNKNOWN}{operation}");
        Self {
            method,
            path: format!("/admin/v1/keys/{key}{operation}"),
            unknown: Some((unknown, Code::KeyNotFound)),
            scope: AdminScope::Keys,
            body,
            is_repeatable: false,
            conflict: None,
        }
    }

    fn of_link(link: &str, operation: &str) -> Self {
        let unknown = format!("/admin/v1/links/lnk_{UNKNOWN}/{operation}");
        Self {
            method: "POST",
            path: format!("/admin/v1/links/{link}/{operation}"),
            unknown: Some((unknown, Code::LinkNotFound)),
            scope: AdminScope::Links,
            body: json!({ "reason": "x" }),
            is_repeatable: false,
            conflict: None,
        }
    }

    /// Returns true if the request must have an idempotency key.
    pub(super) fn takes_key(&self) -> bool {
        self.method == "POST" && !self.is_repeatable
    }

    /// Returns true if the request has a body that counts.
    pub(super) fn takes_body(&self) -> bool {
        self.method != "DELETE" && !self.body.is_null()
    }

    fn with_conflict(self, members: Value, code: Code) -> Self {
        let conflict = Some((members, code));
        Self { conflict, ..self }
    }
}

/// Creates what the routes need, and returns all routes.
pub(super) async fn routes(admin: &AdminApp) -> Vec<Route> {
    let account = admin.account().await;
    let grant = admin.grant(&account, 1_000).await;
    let api_key = admin.api_key(&account).await;
    let created = send(
        &admin.app.router,
        create(&api_key, fresh_key(), &destination()),
    )
    .await;
    let key = json!({ "scopes": ["link:links.read"] });
    let key = admin.done("POST", &format!("{account}/keys"), &key).await;
    let key = text(&key["id"]);

    let mut routes = of_accounts(admin, &account).await;
    routes.extend(of_credits(&account, &grant["id"], charge(admin).await));
    let scopes = json!({ "scopes": ["link:links.read"] });
    let overlap = json!({ "overlap_seconds": 60 });
    let after_rotation = |route: Route| route.with_conflict(json!({}), Code::KeyNotValid);
    routes.extend([
        Route {
            scope: AdminScope::Keys,
            ..Route::of_account(&account, "/keys", scopes.clone())
        },
        Route {
            scope: AdminScope::Keys,
            is_repeatable: true,
            ..Route::of_account(&account, "/console-sessions", scopes)
        },
        after_rotation(Route::of_key(key, "POST", "/rotate", overlap)),
        after_rotation(Route::of_key(key, "PATCH", "", json!({ "name": "x" }))),
        Route::of_key(key, "DELETE", "", json!({})),
    ]);
    let created = created.json();
    let link = text(&created["id"]);
    routes.extend(["disable", "enable"].map(|operation| Route::of_link(link, operation)));
    routes.extend(of_webhooks(admin).await);
    routes
}

/// Creates a webhook and a delivery, and returns the routes of webhooks.
async fn of_webhooks(admin: &AdminApp) -> Vec<Route> {
    let url = json!({ "url": "https://example.com/hooks" });
    let webhook = admin.done("POST", WEBHOOKS, &url).await;
    let webhook = format!("{WEBHOOKS}/{}", text(&webhook["id"]));
    let tested = admin
        .done("POST", &format!("{webhook}/test"), &json!({}))
        .await;
    let retry = format!("/deliveries/{}/retry", text(&tested["id"]));
    let of_webhook = |method, operation: &str, body| Route {
        method,
        path: format!("{webhook}{operation}"),
        unknown: Some((
            format!("{WEBHOOKS}/whe_{UNKNOWN}{operation}"),
            Code::WebhookNotFound,
        )),
        scope: AdminScope::Webhooks,
        body,
        is_repeatable: true,
        conflict: None,
    };
    let from = json!({ "from": "2026-11-20T09:00:00Z" });
    vec![
        Route {
            path: WEBHOOKS.to_owned(),
            unknown: None,
            ..of_webhook("POST", "", url)
        },
        of_webhook("PATCH", "", json!({ "enabled": true })),
        of_webhook("POST", "/rotate-secret", json!({})),
        of_webhook("POST", "/replay", from),
        of_webhook("POST", "/test", Value::Null),
        of_webhook("POST", &retry, Value::Null),
        of_webhook("DELETE", "", Value::Null),
    ]
}

/// Returns the id of the entry of the only charge.
pub(super) async fn charge(admin: &AdminApp) -> EntryId {
    let charge = "SELECT event_id::text FROM event_store.events WHERE type = 'CreditsCharged'";
    let charge = admin.stored(charge).await;
    // An entry has the UUID of its event.
    uuid::Uuid::parse_str(&charge).unwrap().into()
}

async fn of_accounts(admin: &AdminApp, account: &str) -> Vec<Route> {
    let other = json!({ "name": "x", "external_id": "taken" });
    admin.done("POST", ACCOUNTS, &other).await;
    let taken = json!({ "external_id": "taken" });
    let creation = Route {
        path: ACCOUNTS.to_owned(),
        unknown: None,
        ..Route::of_account("", "", json!({ "name": "x" }))
    };
    let upsert = Route {
        method: "PUT",
        path: format!("{ACCOUNTS}/by-external-id/shop-1"),
        unknown: None,
        ..Route::of_account("", "", json!({ "name": "x" }))
    };
    let change = Route {
        method: "PATCH",
        ..Route::of_account(account, "", json!({}))
    };
    let reason = json!({ "reason": "x" });
    vec![
        creation.with_conflict(taken.clone(), Code::ExternalIdTaken),
        upsert,
        change.with_conflict(taken, Code::ExternalIdTaken),
        Route::of_account(account, "/suspend", reason.clone()),
        Route::of_account(account, "/resume", reason),
    ]
}

fn of_credits(account: &str, grant: &Value, charge: EntryId) -> [Route; 5] {
    let of_credits = |operation, body| Route::of_credits(account, operation, body);
    let amount = json!({ "amount": 1, "reason": "x" });
    let too_much = json!({ "amount": -1_000_000 });
    let refund = json!({ "entry": charge, "reason": "x" });
    let revocation = json!({ "grant": grant, "reason": "x" });
    let balance = json!({ "balance": 7, "reason": "x" });
    [
        of_credits("/grants", amount.clone()),
        of_credits("/adjustments", amount).with_conflict(too_much, Code::InsufficientCredits),
        of_credits("/refunds", refund).with_conflict(json!({}), Code::AlreadyRefunded),
        of_credits("/revocations", revocation).with_conflict(json!({}), Code::AlreadyRevoked),
        of_credits("/balance", balance),
    ]
}
