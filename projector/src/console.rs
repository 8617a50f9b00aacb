//! Operators' console: pages on the internal listener with the state of the projections and the
//! history of an account or a link.
//!
//! The console only reads: every route accepts only GET and HEAD, and the sessions are read-only.
//! Nearly all shown data comes from clients: the templates escape the data, and a destination is
//! shown as text, never as a link.

mod account;
mod error_page;
mod events;
mod figures;
mod find;
mod history;
mod layout;
mod link;
mod newest_events;
mod overview;
mod parameters;
mod wording;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{
        HeaderName, HeaderValue, Method, Uri,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use linkledger_event_store::{SessionKind, session_options};
use linkledger_http::console_style::CONSOLE_STYLE;
use linkledger_service::{
    databases::{DatabaseSettings, Databases},
    internal_listener::InternalHosts,
};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::sync::Semaphore;

use self::error_page::ErrorPage;

/// Maximum number of database connections, shared by all pages.
pub(crate) const CONNECTIONS_MAX: u32 = 2;
/// Longest wait for a session.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

const SCRIPT: &str = include_str!("console/console.js");

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// Headers of every answer: no foreign script, style, request or frame.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; \
             connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // No cache keeps the pages: they are momentary and name customers.
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CROSS_ORIGIN_RESOURCE_POLICY,
        HeaderValue::from_static("same-origin"),
    ),
];

/// State that the pages share.
#[derive(Clone)]
struct Console {
    databases: Databases,
    /// A comparison with the log holds one session and takes a second one: one at a time, so that the pool is never
    /// empty for both.
    comparison: Arc<Semaphore>,
}

/// Returns a pool of read-only sessions with short timeouts.
fn pool(database_url: &str) -> sqlx::Result<PgPool> {
    let options = session_options(database_url, SessionKind::Reader)?;
    let options = options.options([
        ("default_transaction_read_only", "on"),
        // The largest page reads some ten thousand rows.
        ("statement_timeout", "2s"),
        ("lock_timeout", "1s"),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options))
}

/// Returns the pages. `hosts` are the host names under which browsers may reach the listener.
///
/// # Errors
/// Returns an error if an address of `settings` is not a valid URL.
pub fn router(settings: &DatabaseSettings, hosts: InternalHosts) -> sqlx::Result<Router> {
    let console = Console {
        databases: settings.pools_by(pool)?,
        comparison: Arc::new(Semaphore::new(1)),
    };
    Ok(Router::new()
        .route("/", get(overview::page))
        .route("/events", get(events::page))
        .route("/accounts/{account_id}", get(account::page))
        .route("/links/{link_id}", get(link::page))
        .route("/find", get(find::find))
        .route(
            "/console.css",
            asset("text/css; charset=utf-8", CONSOLE_STYLE),
        )
        .route(
            "/console.js",
            asset("text/javascript; charset=utf-8", SCRIPT),
        )
        .fallback(no_such_page)
        .method_not_allowed_fallback(only_to_read)
        .with_state(console)
        .layer(middleware::from_fn_with_state(hosts, guard)))
}

fn asset<S: Clone + Send + Sync + 'static>(
    content_type: &'static str,
    body: &'static str,
) -> MethodRouter<S> {
    get(move || async move { ([(CONTENT_TYPE, content_type)], body) })
}

async fn no_such_page(uri: Uri) -> ErrorPage {
    ErrorPage::no_such_page(uri.path())
}

async fn only_to_read(method: Method) -> ErrorPage {
    ErrorPage::only_to_read(&method)
}

/// Refuses an unknown host, and adds the headers to every answer.
async fn guard(State(hosts): State<InternalHosts>, request: Request, next: Next) -> Response {
    let mut response = if hosts.include_host_of(request.headers()) {
        next.run(request).await
    } else {
        ErrorPage::unknown_host().into_response()
    };
    response.headers_mut().extend(HEADERS);
    response
}
