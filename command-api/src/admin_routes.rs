//! The routes of the admin API that write: accounts, API keys, credits and links of all accounts
//! (`docs/admin-api.md`). Each handler calls a function of [`admin`](crate::admin), as the command line does. Also the
//! route of the public listener that exchanges the codes of console sessions.

mod admin_request;
mod answer;
pub mod change_account;
pub mod change_key;
pub mod create_account;
pub mod disable_link;
pub mod enter_console;
pub mod grant_credits;
pub mod issue_key;
mod members;
pub mod open_console;
mod problem_of_error;
pub mod refund_charge;
pub mod resume_account;
pub mod revoke_key;
pub mod rotate_key;
mod schema;
pub mod set_balance;
pub mod suspend_account;
pub mod upsert_account;
mod used_key;

pub(crate) use self::{
    admin_request::outcome,
    answer::{add_token, at, json, replayable},
    members::AFTER,
    used_key::{is_used, is_used_by},
};

use std::sync::Arc;

use axum::{
    Router,
    routing::{patch, post, put},
};
use linkledger_core::{api_key::AdminScope, clock::Clock};
use linkledger_http::{
    admin_gate::AdminGate,
    answer::{AnswerSettings, with_problem_details},
    openapi::{self, request_body::PROBLEMS as BODY},
    problem::Code,
    route_table,
};
use sqlx::PgPool;
use utoipa::OpenApi as _;

use crate::log_end::LogEpoch;

/// State shared by the handlers.
#[derive(Clone)]
pub struct AdminState {
    /// Sessions of kind `Writer`, of the admin API only.
    pub pool: PgPool,
    /// Clock of the decisions.
    pub clock: Arc<dyn Clock>,
    /// Epoch of the log, for consistency tokens.
    pub log_epoch: LogEpoch,
    /// Base address of the API, and of the console.
    pub base_url: Arc<str>,
}

/// Operations of the OpenAPI document: every route of [`router`].
#[derive(utoipa::OpenApi)]
#[openapi(paths(
    create_account::create_account,
    upsert_account::upsert_account,
    change_account::change_account,
    suspend_account::suspend_account,
    resume_account::resume_account,
    issue_key::issue_key,
    change_key::change_key,
    revoke_key::revoke_key,
    rotate_key::rotate_key,
    open_console::open_console,
    grant_credits::grant_credits,
    grant_credits::adjust_credits,
    refund_charge::refund_charge,
    refund_charge::revoke_grant,
    set_balance::set_balance,
    disable_link::disable_link,
    disable_link::enable_link
))]
struct Operations;

/// Problems of operations that have their effect once per idempotency key.
const ONCE: &[Code] = &[
    Code::IdempotencyKeyMissing,
    Code::IdempotencyKeyInvalid,
    Code::IdempotencyKeyReused,
];
const TAKEN: &[Code] = &[Code::ExternalIdTaken];
const NO_ACCOUNT: &[Code] = &[Code::AccountNotFound];
const NO_KEY: &[Code] = &[Code::KeyNotFound, Code::DeadlineExceeded];
const NO_VALID_KEY: &[Code] = &[Code::KeyNotFound, Code::KeyNotValid];
const NO_LINK: &[Code] = &[Code::LinkNotFound];

/// Returns the OpenAPI document of the operations of command-api on the admin API.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let on_account = [BODY, ONCE, NO_ACCOUNT].concat();
    let on_balance = [&on_account[..], &[Code::InsufficientCredits]].concat();
    let on_charge = [
        &on_account[..],
        &[Code::EntryNotFound, Code::AlreadyRefunded],
    ]
    .concat();
    let on_grant = [
        &on_account[..],
        &[Code::EntryNotFound, Code::AlreadyRevoked],
    ]
    .concat();
    let on_link = [BODY, ONCE, NO_LINK].concat();
    openapi::complete_admin(
        Operations::openapi(),
        &[
            ("create_account", &[BODY, ONCE, TAKEN].concat()[..]),
            ("upsert_account", BODY),
            ("change_account", &[BODY, TAKEN, NO_ACCOUNT].concat()[..]),
            ("suspend_account", &on_account[..]),
            ("resume_account", &on_account[..]),
            ("issue_key", &on_account[..]),
            ("change_key", &[BODY, NO_VALID_KEY].concat()[..]),
            ("revoke_key", NO_KEY),
            ("rotate_key", &[BODY, ONCE, NO_VALID_KEY].concat()[..]),
            ("open_console", &[BODY, NO_ACCOUNT].concat()[..]),
            ("grant_credits", &on_account[..]),
            ("adjust_credits", &on_balance[..]),
            ("refund_charge", &on_charge[..]),
            ("revoke_grant", &on_grant[..]),
            ("set_balance", &on_account[..]),
            ("disable_link", &on_link[..]),
            ("enable_link", &on_link[..]),
        ],
    )
}

/// Returns all routes, with the checks before their handlers and the form of their answers. `webhooks` has those of
/// operators' webhooks.
pub fn router(
    state: AdminState,
    gate: &AdminGate,
    webhooks: Router,
    settings: AnswerSettings,
) -> Router {
    use AdminScope::{Accounts, Credits, Keys, Links};

    let change_or_revoke_key = patch(change_key::change_key).delete(revoke_key::revoke_key);
    let routes = Router::new()
        .route(
            route_table::ADMIN_ACCOUNTS,
            gate.guard(Accounts, post(create_account::create_account)),
        )
        .route(
            route_table::ADMIN_ACCOUNT_BY_EXTERNAL_ID,
            gate.guard(Accounts, put(upsert_account::upsert_account)),
        )
        .route(
            route_table::ADMIN_ACCOUNT,
            gate.guard(Accounts, patch(change_account::change_account)),
        )
        .route(
            route_table::ADMIN_ACCOUNT_SUSPEND,
            gate.guard(Accounts, post(suspend_account::suspend_account)),
        )
        .route(
            route_table::ADMIN_ACCOUNT_RESUME,
            gate.guard(Accounts, post(resume_account::resume_account)),
        )
        .route(
            route_table::ADMIN_ACCOUNT_KEYS,
            gate.guard(Keys, post(issue_key::issue_key)),
        )
        .route(
            route_table::ADMIN_KEY,
            gate.guard(Keys, change_or_revoke_key),
        )
        .route(
            route_table::ADMIN_KEY_ROTATE,
            gate.guard(Keys, post(rotate_key::rotate_key)),
        )
        .route(
            route_table::ADMIN_CONSOLE_SESSIONS,
            gate.guard(Keys, post(open_console::open_console)),
        )
        .route(
            route_table::ADMIN_GRANTS,
            gate.guard(Credits, post(grant_credits::grant_credits)),
        )
        .route(
            route_table::ADMIN_ADJUSTMENTS,
            gate.guard(Credits, post(grant_credits::adjust_credits)),
        )
        .route(
            route_table::ADMIN_REFUNDS,
            gate.guard(Credits, post(refund_charge::refund_charge)),
        )
        .route(
            route_table::ADMIN_REVOCATIONS,
            gate.guard(Credits, post(refund_charge::revoke_grant)),
        )
        .route(
            route_table::ADMIN_BALANCE,
            gate.guard(Credits, post(set_balance::set_balance)),
        )
        .route(
            route_table::ADMIN_LINK_DISABLE,
            gate.guard(Links, post(disable_link::disable_link)),
        )
        .route(
            route_table::ADMIN_LINK_ENABLE,
            gate.guard(Links, post(disable_link::enable_link)),
        )
        .with_state(state)
        .merge(webhooks);
    with_problem_details(routes, settings)
}
