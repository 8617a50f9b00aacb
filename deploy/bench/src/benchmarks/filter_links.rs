//! Benchmark of filtered lists: latency of a page of a filtered list of links, compared with the plain list.

use anyhow::Context as _;
use linkledger_core::id::LinkId;
use sqlx::{Connection as _, PgConnection};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    accounts::LoadAccount,
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    links::{ConsecutiveIds, DataSetLinks},
    report::Report,
    requests,
    stack::{BrokerKind, StackProcess},
};

/// One request after the other: requests for the plain list at the same time share statements, filtered ones do not.
const CONNECTIONS: usize = 1;
pub(super) const LIMIT: usize = 50;
const DETAILS: &str = include_str!("filter_links/details.sql");

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let store = DetailedLinks::start(bench).await?;
    let (api, account) = (store.stack.api, &store.account);
    let queries = queries(&store.links)?;
    let mut figures = Figures::default();
    for _ in bench.rounds("filter-links") {
        for query in &queries {
            let page = requests::list(account, LIMIT, query).into_bytes();
            let page = requests::in_turn(200, vec![page]).to(api, CONNECTIONS);
            let seen = page.maximum(bench.duration()).await?;
            figures.add(query, seen.latency_ms(0.5));
        }
    }
    store.stack.stop().await?;
    let rows = queries[1..].iter().map(|query| {
        let row = figures.ratio(query, "ms", &queries[0]);
        row.to("the plain list").at_most(2.0)
    });
    Ok(Report::new("filter-links", "Pages of a filtered list of links", rows).note(format!(
        "Medians of one request after the other. The account has {} links; a page shows {LIMIT}. All links have \
         the tag spring, 1 % the tag print; 5 % have expired, 5 % expire later, 1 % are disabled. \
         Some 3,900 links share a prefix of two letters.",
        store.links.len()
    )))
}

/// A running stack with one account, whose many links have details.
pub(crate) struct DetailedLinks {
    pub(crate) stack: StackProcess,
    pub(crate) account: LoadAccount,
    /// Links in the order of creation.
    links: Vec<LinkId>,
}

impl DetailedLinks {
    /// Starts the stack on a copy of the data set of one account.
    pub(crate) async fn start(bench: &BenchContext) -> anyhow::Result<Self> {
        let (url, mut accounts) = bench.copy(DataSet::ONE_ACCOUNT).await?;
        add_details(&url).await?;
        let account = accounts.remove(0);
        let links = DataSetLinks::of_account(&url, account.account_id).await?;
        let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
        bench.server.checkpoint().await?;
        Ok(Self {
            stack,
            account,
            links: links.ids,
        })
    }
}

/// Adds details to the links of a copy of a data set with one account.
pub(super) async fn add_details(url: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    for statement in [DETAILS, "VACUUM (FREEZE, ANALYZE)"] {
        sqlx::raw_sql(statement)
            .execute(&mut connection)
            .await
            .context("can't add details to the links")?;
    }
    Ok(connection.close().await?)
}

/// Returns the queries of a list without a filter, and then of every filter that can be measured,
/// for links in the order of creation.
pub(super) fn queries(links: &[LinkId]) -> anyhow::Result<Vec<String>> {
    let middle = links.len() / 2;
    let slug = DataSet::slug(middle as u64);
    let until = ConsecutiveIds::of(links)?.first + middle as u64;
    let until = OffsetDateTime::from_unix_timestamp_nanos(i128::from(until) * 1_000_000)?;
    let address = "https://www.example.com/some/path";
    Ok(vec![
        String::new(),
        "sort=created_at".to_owned(),
        format!("slug={slug}"),
        format!("slug_prefix={}", &slug[..4]),
        format!("slug_prefix={}", &slug[..3]),
        format!("slug_prefix={}", &slug[..2]),
        format!("destination_url={address}/{middle}?campaign=spring"),
        "destination_host=www.example.com".to_owned(),
        format!("external_id=offer/{middle}"),
        "tag=spring".to_owned(),
        "tag=print".to_owned(),
        "tag=print,spring".to_owned(),
        "state=active".to_owned(),
        "state=expired".to_owned(),
        "state=disabled".to_owned(),
        format!("created_to={}", until.format(&Rfc3339)?),
    ])
}
