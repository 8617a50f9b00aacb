//! The measured reads, sent to a query-api with a small data set: requests and baselines do the
//! intended work. No test measures time.

use std::{collections::HashSet, net::SocketAddr, sync::Arc};

use linkledger_core::clock::SystemClock;
use linkledger_http::authentication::KEYS_CACHED_MAX;
use linkledger_query_api::{ClickSettings, QueryApiConfig};
use linkledger_service::{
    databases::DatabaseSettings,
    internal_listener::InternalHosts,
    lifecycle::{self, Tasks},
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    filter_links::{self, Filter},
    get_link,
    list_links::List,
};
use crate::{
    accounts::LoadAccount,
    bare_redirect::{self, BareRedirect, are_alike},
    data_set::{self, DataSet},
    links::{ConsecutiveIds, DataSetLinks},
    load::HttpConnection,
    server::BenchServer,
    statement,
};

/// Two full pages and a part of a third page.
const SMALL: DataSet = DataSet::new(1, 120);

#[tokio::test]
async fn questions_and_baselines_do_the_intended_work() {
    let folder = TempDir::new().unwrap();
    let server = BenchServer::start(folder.path()).await.unwrap();
    let url = SMALL.copy(&server, "reads").await.unwrap();
    let account = data_set::accounts(&url).await.unwrap().remove(0);
    let links = DataSetLinks::of_account(&url, account.account_id)
        .await
        .unwrap();
    let mut tasks = Tasks::new(CancellationToken::new());
    let [api, short_host] = serve(&url, &mut tasks).await;

    assert_reads_by_id(&url, api, (&account, &links)).await;
    assert_pages(&url, api, (&account, &links)).await;
    assert_bare_server_equals_short_host(short_host, &links.slugs[7]).await;
    filter_links::add_details(&url).await.unwrap();
    for filter in Filter::all(&links.ids).unwrap() {
        filter.check(api, &account, &links.ids).await.unwrap();
    }

    tasks.shutdown().cancel();
    tasks.join().await.unwrap();
    server.stop().await.unwrap();
}

async fn assert_reads_by_id(
    url: &str,
    api: SocketAddr,
    (account, links): (&LoadAccount, &DataSetLinks),
) {
    let ids = ConsecutiveIds::of(&links.ids).unwrap();
    let target = get_link::target(api, account, &ids);
    let mut request = Vec::new();
    let mut connection = HttpConnection::open(api).await.unwrap();
    let mut asked = HashSet::new();
    for number in 0..10 {
        request.clear();
        (target.requests)(number, &mut request);
        let answer = connection.exchange(&request).await.unwrap();
        assert_eq!(answer.status, 200);
        let shown: serde_json::Value = serde_json::from_slice(answer.body).unwrap();
        let id = shown["id"].as_str().unwrap().parse().unwrap();
        assert!(links.ids.contains(&id), "{shown}");
        asked.insert(id);
    }
    assert!(asked.len() > 5, "any link, not always the same: {asked:?}");
    let select = get_link::select(url, (account, &ids)).await.unwrap();
    let eighth = select.replace(":ms", &(ids.first + 7).to_string());
    let found = statement::link_ids(url, &eighth).await.unwrap();
    assert_eq!(found, [links.ids[7].uuid()]);
}

async fn assert_pages(url: &str, api: SocketAddr, (account, links): (&LoadAccount, &DataSetLinks)) {
    let newest_first: Vec<_> = links.ids.iter().rev().copied().collect();
    let list = |links| List {
        api,
        url,
        account,
        links,
    };
    for (number, first) in [(1, 0), (2, 50)] {
        let page = list(&newest_first).page(number).await.unwrap();
        // The number of rows that the service reads, one more than the page has.
        let expected = newest_first[first..=first + 50].iter().map(|id| id.uuid());
        let expected: Vec<Uuid> = expected.collect();
        for script in [&page.statement, &page.select] {
            let found = statement::link_ids(url, script).await.unwrap();
            assert_eq!(found, expected, "page {number}");
        }
    }
    // The last page is not full, so it can't be measured.
    assert!(list(&newest_first).page(3).await.is_err());
    // A list in another order must be an error.
    assert!(list(&links.ids).page(2).await.is_err());
}

async fn assert_bare_server_equals_short_host(short_host: SocketAddr, slug: &str) {
    let request = format!("GET /{slug} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    let mut connection = HttpConnection::open(short_host).await.unwrap();
    let shown = connection.exchange(&request).await.unwrap();
    assert_eq!(shown.status, 302);
    let bare = BareRedirect::answering(shown, 1).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = async {
        let mut connection = HttpConnection::open(address).await.unwrap();
        let answer = connection.exchange(&request).await.unwrap();
        let text = String::from_utf8_lossy(answer.head);
        assert!(are_alike(&answer, &shown), "{text}");
    };
    tokio::select! {
        ended = bare_redirect::accept(listener, bare.router().unwrap()) => panic!("{ended:?}"),
        () = asked => {}
    }
}

/// Starts a query-api on the database; returns the addresses of its API and its short host.
async fn serve(url: &str, tasks: &mut Tasks) -> [SocketAddr; 2] {
    let config = QueryApiConfig {
        databases: DatabaseSettings::one(url),
        read_replica_urls: Vec::new(),
        allow_unsafe_postgres: true,
        base_url: "http://127.0.0.1:8080".parse().unwrap(),
        short_base_url: "http://127.0.0.1:8081".parse().unwrap(),
        rate_limit: 0,
        allowed_hosts: Vec::new(),
        cors_allowed_origins: Vec::new(),
        redirect_status: "302".parse().unwrap(),
        redirect_cache_mib: 1,
        redirect_staleness_max_ms: 500,
        connections_max: 4,
        api_keys_cached_max: KEYS_CACHED_MAX,
        clicks: ClickSettings::off(),
        internal_hosts: InternalHosts::default(),
    };
    let service = linkledger_query_api::start(config, Arc::new(SystemClock), tasks);
    let service = service.await.unwrap();
    let mut addresses = Vec::new();
    let mut listener = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(listener.local_addr().unwrap());
        listener
    };
    lifecycle::serve(tasks, "api", listener().await, service.api);
    lifecycle::serve(tasks, "short host", listener().await, service.short_host);
    addresses.try_into().unwrap()
}
