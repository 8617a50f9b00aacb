//! Creates, from the bytes of a request to the bytes of the response, in batches of a fixed size.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use linkledger_command_api::{
    command_handler::CommandHandler,
    command_queue::CommandQueue,
    log_end::LogEpoch,
    routes::{self, WriteState},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::{Clock as _, SystemClock, new_uuid},
    commands::CreateTerms,
    link::DestinationRules,
};
use linkledger_event_store::SessionKind;
use linkledger_http::{
    answer::AnswerSettings,
    authentication::{Authenticator, KEYS_CACHED_MAX},
    gate::RouteGate,
    observe::ServiceName,
    rate_limit::RequestClass,
    served_hosts::ServedHosts,
};
use linkledger_service::lifecycle::{self, Tasks};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

use crate::{
    Counted, RATE_LIMIT, REQUESTS_PER_ROUND, accounts::Account, server::Counters,
    visitors::Visitors,
};

const BASE_URL: &str = "https://api.sho.rt";
const SHORT_BASE_URL: &str = "https://sho.rt";
/// Number of parts. Each part uses new API keys, so that no key is looked up again while its round
/// is counted: a looked-up key is trusted for seconds only, and callgrind is slow.
pub(crate) const PARTS: usize = 8;
const ROUNDS: usize = 2;
/// Rounds in the large store, each of other accounts.
const LARGE_ROUNDS: usize = 8;
/// Number of accounts of these rounds.
pub(crate) const LARGE_ACCOUNTS: usize = LARGE_ROUNDS * REQUESTS_PER_ROUND;

pub(crate) fn count(
    runtime: &Runtime,
    server: &Counters,
    accounts: &[Account],
) -> anyhow::Result<Counted> {
    let mut tasks = runtime.block_on(async { Tasks::new(CancellationToken::new()) });
    let address = runtime.block_on(serve(server, &mut tasks))?;
    let visitors = runtime.block_on(Visitors::connect(address, REQUESTS_PER_ROUND))?;
    let mut counted = Counted::default();
    for part in 0..PARTS {
        serve_uncounted(runtime, &visitors, &requests(accounts, part))?;
        let counting = runtime.block_on(server.begin())?;
        for _ in 0..ROUNDS {
            visitors.send(&requests(accounts, part))?;
            visitors.let_serve(runtime)?;
            visitors.receive(REQUESTS_PER_ROUND, "201")?;
            crate::end_of("create", &Counted::of_round(REQUESTS_PER_ROUND))?;
        }
        let spent = runtime.block_on(server.end(counting, ROUNDS))?;
        counted.add(spent, ROUNDS * REQUESTS_PER_ROUND);
    }
    Ok(counted)
}

/// Counts creates in a large store, each round right after a checkpoint. There the write-ahead log has a whole page
/// for nearly every row of an index in random order: another such index shows here, not in a small store.
pub(crate) fn count_large(
    runtime: &Runtime,
    server: &Counters,
    accounts: &[Account],
) -> anyhow::Result<Counted> {
    let mut tasks = runtime.block_on(async { Tasks::new(CancellationToken::new()) });
    let address = runtime.block_on(serve(server, &mut tasks))?;
    let visitors = runtime.block_on(Visitors::connect(address, REQUESTS_PER_ROUND))?;
    let mut counted = Counted::default();
    for accounts in accounts.chunks(REQUESTS_PER_ROUND) {
        // Looks the API keys up.
        serve_uncounted(runtime, &visitors, &requests(accounts, 0))?;
        runtime.block_on(server.checkpoint())?;
        let counting = runtime.block_on(server.begin())?;
        serve_uncounted(runtime, &visitors, &requests(accounts, 0))?;
        let spent = runtime.block_on(server.end(counting, 1))?;
        counted.add(spent, REQUESTS_PER_ROUND);
    }
    Ok(counted)
}

fn serve_uncounted(
    runtime: &Runtime,
    visitors: &Visitors,
    requests: &[Vec<u8>],
) -> anyhow::Result<()> {
    visitors.send(requests)?;
    runtime.block_on(visitors.answered(requests.len()))?;
    visitors.receive(requests.len(), "201")
}

/// Starts the service without the tasks that run beside the requests.
async fn serve(server: &Counters, tasks: &mut Tasks) -> anyhow::Result<SocketAddr> {
    let clock = Arc::new(SystemClock);
    let handler = CommandHandler {
        pool: server.counted_pool(SessionKind::Writer, 1)?,
        terms: CreateTerms {
            link_price: 1,
            short_base_url: SHORT_BASE_URL.to_owned(),
        },
        clock: clock.clone(),
        committed: Arc::default(),
    };
    let (queue, writers) = CommandQueue::new(vec![handler]);
    // Not on threads of their own: callgrind counts the main thread.
    for writer in writers {
        tasks.spawn_essential("writer", writer.run(tasks.shutdown()));
    }
    let state = WriteState {
        bodies: Arc::default(),
        queue,
        destination_rules: Arc::new(DestinationRules::default()),
        log_epoch: LogEpoch::new(1),
        short_base_url: SHORT_BASE_URL.into(),
        base_url: BASE_URL.into(),
        rate_limits: None,
    };
    let readers = linkledger_event_store::pool(&server.url, SessionKind::Reader, 1)?;
    // Under callgrind the begin of a session takes longer than a request would wait for a session.
    drop(readers.acquire().await?);
    let authenticator = Authenticator::new(readers, clock, KEYS_CACHED_MAX, tasks);
    let (class, scope) = (RequestClass::Write, Scope::LinksWrite);
    let gate = RouteGate::new(authenticator, RATE_LIMIT, class, scope);
    let settings = AnswerSettings {
        base_url: BASE_URL.into(),
        short_base_url: SHORT_BASE_URL.into(),
        hosts: ServedHosts::new(&BASE_URL.parse()?, &[]),
        service: ServiceName::CommandApi,
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let router = routes::router(state, gate, Router::new(), settings);
    lifecycle::serve(tasks, "api listener", listener, router);
    Ok(address)
}

fn requests(accounts: &[Account], part: usize) -> Vec<Vec<u8>> {
    let senders = accounts.iter().cycle().take(REQUESTS_PER_ROUND);
    senders
        .map(|account| request(&account.keys[part]))
        .collect()
}

fn request(key: &ApiKey) -> Vec<u8> {
    let idempotency_key = new_uuid(SystemClock.now());
    let body = r#"{"destination_url":"https://example.com/offers?season=spring&page=1"}"#;
    format!(
        "POST /v1/links HTTP/1.1\r\nhost: api.sho.rt\r\nuser-agent: cost/1\r\naccept: */*\r\n\
         authorization: Bearer {}\r\ncontent-type: application/json\r\n\
         idempotency-key: {idempotency_key}\r\ncontent-length: {}\r\n\r\n{body}",
        key.reveal(),
        body.len()
    )
    .into_bytes()
}
