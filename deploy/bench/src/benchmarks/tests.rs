//! The measured reads, sent to a query-api with a small data set: requests and baselines do the
//! intended work. No test measures time.

use std::{collections::HashSet, net::SocketAddr, sync::Arc};

use linkledger_core::{clock::SystemClock, id::LinkId};
use linkledger_http::authentication::KEYS_CACHED_MAX;
use linkledger_query_api::{ClickSettings, QueryApiConfig};
use linkledger_service::{
    databases::DatabaseSettings,
    internal_listener::AdminAllowedHosts,
    lifecycle::{self, Tasks},
};
use sqlx::{AssertSqlSafe, Column as _, Connection as _, PgConnection, Row as _};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{filter_links, get_link, list_links::List};
use crate::{
    accounts::LoadAccount,
    bare_redirect::{accept, answering, are_alike},
    data_set::{self, DataSet},
    links::{ConsecutiveIds, DataSetLinks, ShownPage},
    load::HttpConnection,
    requests,
    server::BenchServer,
};

/// Two full pages and a part of a third page.
const SMALL: DataSet = DataSet::new(1, 120);

#[tokio::test]
async fn benchmarks_and_baselines_do_the_intended_work() {
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
    assert_filters(api, &account, &links.ids).await;

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
        (target.requests.write)(number, &mut request);
        let answer = connection.exchange(&request).await.unwrap();
        assert_eq!(answer.status, 200);
        let shown: serde_json::Value = serde_json::from_slice(answer.body).unwrap();
        let id = shown["id"].as_str().unwrap().parse().unwrap();
        assert!(links.ids.contains(&id), "{shown}");
        asked.insert(id);
    }
    assert!(asked.len() > 5, "any link, not always the same: {asked:?}");
    let select = get_link::select(account, &ids);
    for index in [0, ids.count() / 2, ids.count() - 1] {
        let select = select.replace(":ms", &(ids.first + index).to_string());
        assert_eq!(link_ids(url, &select).await, [ids.nth(index).uuid()]);
    }
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
        for script in &page.selects {
            let found = link_ids(url, script).await;
            assert_eq!(found, expected, "page {number}");
        }
    }
    // The last page is not full, so it can't be measured.
    assert!(list(&newest_first).page(3).await.is_err());
    // A list in another order must be an error.
    assert!(list(&links.ids).page(2).await.is_err());
}

/// Runs a statement, and returns the ids of the links that it finds, in order.
async fn link_ids(url: &str, statement: &str) -> Vec<Uuid> {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let rows = sqlx::query(AssertSqlSafe(statement))
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let ids = rows.iter().map(|row| {
        // The services append `?` or `!` to the names of columns, as the query macros of sqlx
        // demand.
        let named = |name| {
            let mut columns = row.columns().iter();
            columns.position(|column| column.name().trim_end_matches(['?', '!']) == name)
        };
        match named("link_id") {
            Some(one) => row.get::<Option<Uuid>, _>(one).into_iter().collect(),
            None => row.get::<Vec<Uuid>, _>(named("link_ids").unwrap()),
        }
    });
    ids.collect::<Vec<_>>().concat()
}

async fn assert_filters(api: SocketAddr, account: &LoadAccount, links: &[LinkId]) {
    let middle = links.len() / 2;
    let slug = DataSet::slug(middle as u64);
    for query in filter_links::queries(links).unwrap() {
        let (name, value) = query.split_once('=').unwrap_or_default();
        let is_expired = |number: usize| number % 20 == 1;
        let is_disabled = |number: usize| number % 100 == 50;
        // Numbers are in the order of creation, from 1.
        let is_found = |number: &usize| match (name, value) {
            ("" | "sort" | "destination_host", _) | ("tag", "spring") => true,
            ("slug" | "destination_url" | "external_id", _) => *number == middle,
            ("slug_prefix", prefix) => {
                assert!(slug.starts_with(prefix));
                DataSet::slug(*number as u64).starts_with(prefix)
            }
            ("tag", _) => number.is_multiple_of(100),
            ("state", "active") => !is_expired(*number) && !is_disabled(*number),
            ("state", "expired") => is_expired(*number),
            ("state", _) => is_disabled(*number),
            ("created_to", _) => *number <= middle,
            _ => panic!("{query}"),
        };
        let found = (1..=links.len()).filter(is_found);
        let mut expected: Vec<LinkId> = found.map(|number| links[number - 1]).collect();
        if name != "sort" {
            expected.reverse();
        }
        expected.truncate(filter_links::LIMIT);
        let request = requests::list(account, filter_links::LIMIT, &query);
        let shown = ShownPage::get(api, &request).await.unwrap();
        assert_eq!(shown.ids(), expected, "{query}");
    }
}

async fn assert_bare_server_equals_short_host(short_host: SocketAddr, slug: &str) {
    let request = format!("GET /{slug} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    let mut connection = HttpConnection::open(short_host).await.unwrap();
    let shown = connection.exchange(&request).await.unwrap();
    assert_eq!(shown.status, 302);
    let app = answering(shown).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = async {
        let mut connection = HttpConnection::open(address).await.unwrap();
        let answer = connection.exchange(&request).await.unwrap();
        let text = String::from_utf8_lossy(answer.head);
        assert!(are_alike(&answer, &shown), "{text}");
    };
    tokio::select! {
        ended = accept(listener, app) => panic!("{ended:?}"),
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
        database_pool_size: 4,
        api_keys_cached_max: KEYS_CACHED_MAX,
        clicks: ClickSettings::off(),
        admin_allowed_hosts: AdminAllowedHosts::default(),
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
