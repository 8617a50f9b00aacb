//! The operators' console: pages on the internal listener that say how the projections are, and
//! what the log says of an account or a link.
//!
//! It looks and never touches: no route takes more than GET and HEAD, and its sessions may not
//! write. Nearly all that it shows was sent by somebody: the templates escape it, and where a link
//! points to is shown, never linked.

mod account;
mod events;
mod figures;
mod find;
mod guard;
mod lag_samples;
mod layout;
mod link;
mod newest_events;
mod overview;
mod parameters;
mod read_tables;
mod refusal;
mod sparkline;
mod wording;

use std::time::Duration;

use axum::{
    Router,
    http::{Method, Uri, header::CONTENT_TYPE},
    middleware,
    routing::{MethodRouter, get},
};
use linkledger_core::{
    event_store::{SessionKind, session_options},
    lifecycle::Tasks,
};
use sqlx::{PgPool, postgres::PgPoolOptions};

use self::{guard::Hosts, lag_samples::LagSamples, refusal::Refusal};

/// Sessions that all pages share: a reader can't take those that the projections need.
pub(crate) const CONNECTIONS_MAX: u32 = 2;
/// Longest wait for one of them, in seconds.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

const STYLE: &str = include_str!("console/console.css");
const SCRIPT: &str = include_str!("console/console.js");

/// What the pages are made from.
#[derive(Clone)]
struct Console {
    pool: PgPool,
    samples: LagSamples,
}

/// Starts what the console needs among `tasks`, and returns its pages. `hosts` are names by which
/// browsers may know the listener, besides IP addresses and `localhost`.
///
/// # Errors
/// When the address of the database can't be read.
pub fn start(database_url: &str, hosts: Vec<String>, tasks: &mut Tasks) -> sqlx::Result<Router> {
    let console = Console {
        pool: pool(database_url)?,
        samples: LagSamples::default(),
    };
    let samples = console.samples.clone();
    tasks.spawn(
        "console: samples of the lag",
        samples.keep_taking(console.pool.clone(), tasks.shutdown()),
    );
    Ok(router(console, Hosts::new(hosts)))
}

/// Sessions that may only read, and not for long.
fn pool(database_url: &str) -> sqlx::Result<PgPool> {
    let options = session_options(database_url, SessionKind::Reader)?;
    let options = options.options([
        ("default_transaction_read_only", "on"),
        // The largest page looks at some ten thousand rows.
        ("statement_timeout", "2s"),
        ("lock_timeout", "1s"),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options))
}

fn router(console: Console, hosts: Hosts) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/events", get(events::page))
        .route("/accounts/{account_id}", get(account::page))
        .route("/links/{link_id}", get(link::page))
        .route("/find", get(find::find))
        .route("/console.css", asset("text/css; charset=utf-8", STYLE))
        .route(
            "/console.js",
            asset("text/javascript; charset=utf-8", SCRIPT),
        )
        .fallback(no_such_page)
        .method_not_allowed_fallback(only_to_read)
        .with_state(console)
        .layer(middleware::from_fn_with_state(hosts, guard::guard))
}

fn asset<S: Clone + Send + Sync + 'static>(
    content_type: &'static str,
    body: &'static str,
) -> MethodRouter<S> {
    get(move || async move { ([(CONTENT_TYPE, content_type)], body) })
}

async fn no_such_page(uri: Uri) -> Refusal {
    Refusal::no_such_page(uri.path())
}

async fn only_to_read(method: Method) -> Refusal {
    Refusal::only_to_read(&method)
}
