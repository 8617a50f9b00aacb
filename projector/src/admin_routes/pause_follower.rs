//! `POST /admin/v1/followers/{name}/pause` and `…/resume`: stop a follower of the log, and continue it.
//!
//! Neither needs an idempotency key: repeated at once, a request changes nothing. Later it could undo the change of
//! somebody else, so neither the ingress nor the console for operators repeats it.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{FromRequest, Request},
    http::{Uri, header::CACHE_CONTROL},
    response::{IntoResponse as _, Response},
};
use linkledger_core::{api_key::AdminScope, id::AdminKeyId};
use linkledger_http::{
    admin_body::{REASON, parse_object, parse_reason, read_body},
    admin_gate::AdminCaller,
    openapi::request_body,
    problem::{Code, Problem},
    request::{AcceptedBody, check_accept, check_no_query, part_after},
    route_table,
};
use tokio::time::timeout;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{AdminState, NO_STORE};
use crate::{
    operations::pause::{self, FollowerName, PauseChange, Paused},
    pipeline::retry,
};

/// Longest time of a change; then its outcome is unknown. With the look-up of the admin key, below the 17 s after which
/// an ingress gives up.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(12);

/// Body of both requests in the OpenAPI document.
struct FollowerReason;

impl PartialSchema for FollowerReason {
    fn schema() -> RefOr<Schema> {
        let reason = request_body::reason("maintenance of the disk");
        request_body::body(&[(REASON, reason)], &[REASON])
    }
}

impl ToSchema for FollowerReason {}

/// Valid request to change a follower.
pub struct FollowerRequest {
    admin: Arc<AdminState>,
    /// Key under which the change is recorded.
    key_id: AdminKeyId,
    follower: FollowerName,
    reason: String,
}

impl FromRequest<Arc<AdminState>> for FollowerRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, admin: &Arc<AdminState>) -> Result<Self, Problem> {
        check_no_query(request.uri())?;
        check_accept(request.headers())?;
        let (head, body) = request.into_parts();
        let caller = head.extensions.get::<AdminCaller>();
        let caller = *caller.ok_or_else(Problem::internal)?;
        let bytes = read_body(&head.headers, body, &AcceptedBody::JSON).await?;
        let reason = parse_reason(&parse_object(&bytes)?);
        let reason = reason.map_err(|errors| Problem::validation_failed(&errors))?;
        Ok(Self {
            admin: Arc::clone(admin),
            key_id: caller.key_id,
            follower: follower(&head.uri)?,
            reason,
        })
    }
}

impl FollowerRequest {
    /// Changes the follower, and records the change if there is one.
    async fn change(self, change: PauseChange) -> Result<Response, Problem> {
        let operator = self.key_id.to_string();
        let (followers, reason) = ([self.follower], Some(self.reason.as_str()));
        let changing = pause::change(&self.admin.writer, &followers, change, &operator, reason);
        let Ok(changed) = timeout(CHANGE_TIME_MAX, changing).await else {
            tracing::error!("the change of a follower took longer than {CHANGE_TIME_MAX:?}");
            return Err(Problem::deadline_exceeded());
        };
        let changed = changed.map_err(|error| {
            tracing::error!(error = format!("{error:#}"), "cannot change a follower");
            if retry::passes_by_itself(&error) {
                busy()
            } else {
                Problem::storage_unavailable()
            }
        })?;
        let changed = changed.first().ok_or_else(Problem::internal)?;
        Ok(([(CACHE_CONTROL, NO_STORE)], Json(changed)).into_response())
    }
}

/// Stops a follower.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_FOLLOWER_PAUSE,
    tag = "operations",
    summary = "Pause a follower",
    description = "Stops a projection, or the aggregation of clicks, in every process. Reads continue from the rows \
                   that are there. When the answer arrives, the last batch is finished.",
    params(("name" = inline(FollowerName), Path, description = "Name of the follower.")),
    request_body(content = FollowerReason, example = json!({ "reason": "maintenance of the disk" })),
    responses(
        (status = 200, description = "The paused follower. `is_changed` is false if it was paused before.",
         body = Paused,
         example = json!({ "follower": "links", "is_changed": true, "paused_at": "2026-11-20T09:51:00.123Z" })),
    ),
    security(("admin_key" = [AdminScope::Operations.name()])),
)]
#[tracing::instrument(skip_all)]
pub async fn pause_follower(request: FollowerRequest) -> Result<Response, Problem> {
    request.change(PauseChange::Pause).await
}

/// Continues a follower.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_FOLLOWER_RESUME,
    tag = "operations",
    summary = "Resume a follower",
    description = "Continues a projection, or the aggregation of clicks, that is paused; it catches up.",
    params(("name" = inline(FollowerName), Path, description = "Name of the follower.")),
    request_body(content = FollowerReason, example = json!({ "reason": "maintenance is over" })),
    responses(
        (status = 200, description = "The follower. `is_changed` is false if it was not paused.", body = Paused,
         example = json!({ "follower": "links", "is_changed": true, "paused_at": null })),
    ),
    security(("admin_key" = [AdminScope::Operations.name()])),
)]
#[tracing::instrument(skip_all)]
pub async fn resume_follower(request: FollowerRequest) -> Result<Response, Problem> {
    request.change(PauseChange::Resume).await
}

/// Returns the problem of a follower that others hold for longer than a change waits.
fn busy() -> Problem {
    let detail = "A batch, a repair or a recount holds the follower; see `projector status`, and retry in a second.";
    Problem::new(Code::Overloaded, detail).retry_after(1)
}

/// Returns the follower that the path names.
fn follower(uri: &Uri) -> Result<FollowerName, Problem> {
    let name = part_after(uri, route_table::ADMIN_FOLLOWERS);
    name.and_then(FollowerName::of_name).ok_or_else(|| {
        let names = FollowerName::ALL.map(FollowerName::name).join(", ");
        let detail = format!("Check the path; the followers are {names}.");
        Problem::new(Code::RouteNotFound, detail)
    })
}

#[cfg(test)]
mod tests {
    use linkledger_event_store::time_limit::READ_TIME_MAX;

    use super::*;

    #[test]
    fn changes_end_before_the_ingress_gives_up() {
        let commands = include_str!("../../../deploy/ingress/linkledger/commands.conf");
        let waits = commands.lines().find_map(|line| {
            let seconds = line.strip_prefix("proxy_read_timeout")?;
            seconds.trim().strip_suffix("s;")?.parse().ok()
        });
        assert!(CHANGE_TIME_MAX + READ_TIME_MAX < Duration::from_secs(waits.unwrap()));
    }
}
