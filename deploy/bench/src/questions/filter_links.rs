//! Latency of a page of a filtered list of links, compared with the plain list.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use linkledger_core::id::LinkId;
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    accounts::LoadAccount,
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    links::{ConsecutiveIds, DataSetLinks},
    load::{self, HttpConnection, LoadTarget},
    requests,
    stack::{BrokerKind, StackProcess},
};

/// One request after the other: requests for the plain list at the same time share statements, filtered ones do not.
const CONNECTIONS: usize = 1;
const LIMIT: usize = 50;
/// Warm-up before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);
const DETAILS: &str = include_str!("filter_links/details.sql");

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let store = DetailedLinks::start(bench).await?;
    let (api, account) = (store.stack.api, &store.account);
    let filters = Filter::all(&store.links)?;
    for filter in &filters {
        filter.check(api, account, &store.links).await?;
    }
    let mut measured = vec![Vec::new(); filters.len()];
    for _ in bench.rounds("filter-links") {
        for (filter, figures) in filters.iter().zip(&mut measured) {
            let target = filter.target(api, account);
            let outcome = load::closed_loop(&target, WARM_UP, bench.duration()).await?;
            figures.push(outcome.all_expected()?.latency_ms(0.5));
        }
    }
    store.stack.stop().await?;
    Ok(answer(&filters, &measured, store.links.len()))
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
        let url = DataSet::ONE_ACCOUNT
            .copy(&bench.server, "bench_filter_links")
            .await?;
        add_details(&url).await?;
        let account = data_set::accounts(&url).await?.remove(0);
        let links = DataSetLinks::of_account(&url, account.account_id)
            .await?
            .ids;
        let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
        bench.server.checkpoint().await?;
        Ok(Self {
            stack,
            account,
            links,
        })
    }
}

fn answer(filters: &[Filter], measured: &[Vec<f64>], links: usize) -> QuestionAnswer {
    let plain = ("the plain list", measured[0].as_slice());
    let rows = filters.iter().zip(measured).skip(1);
    let rows = rows.map(|(filter, figures)| {
        let most = Some(TargetValue::AtMost(2.0));
        ReportRow::ratio(filter.query.clone(), "ms", figures, plain, most)
    });
    QuestionAnswer {
        question: "filter-links",
        title: "Pages of a filtered list of links",
        rows: rows.collect(),
        latencies: Vec::new(),
        notes: vec![format!(
            "Medians of one request after the other. The account has {links} links; a page shows {LIMIT}. All links have \
             the tag spring, 1 % the tag print; 5 % have expired, 5 % expire later, 1 % are disabled. \
             Some 3,900 links share a prefix of two letters."
        )],
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

/// A filter of the list, as the query of the request.
pub(super) struct Filter {
    query: String,
    /// Returns true for the number of a link that the filter finds; numbers are in the order of creation, from 1.
    finds: Box<dyn Fn(usize) -> bool>,
    /// True if the oldest link is first.
    is_ascending: bool,
}

/// Members of a page in a response.
#[derive(Deserialize)]
struct Shown {
    items: Vec<ShownLink>,
    has_more: bool,
}

#[derive(Deserialize)]
struct ShownLink {
    id: LinkId,
}

impl Filter {
    /// Returns no filter, and then every filter that can be measured, for links in the order of creation.
    pub(super) fn all(links: &[LinkId]) -> anyhow::Result<Vec<Self>> {
        let middle = links.len() / 2;
        let slug = DataSet::slug(middle as u64);
        let prefix = |digits: usize| {
            let prefix = slug[..digits].to_owned();
            let query = format!("slug_prefix={prefix}");
            Self::new(query, move |number| {
                DataSet::slug(number as u64).starts_with(&prefix)
            })
        };
        let until = ConsecutiveIds::of(links)?.first + middle as u64;
        let until = OffsetDateTime::from_unix_timestamp_nanos(i128::from(until) * 1_000_000)?;
        let until = until.format(&Rfc3339)?;
        let is_expired = |number| number % 20 == 1;
        let is_disabled = |number| number % 100 == 50;
        Ok(vec![
            Self::new("", |_| true),
            Self {
                is_ascending: true,
                ..Self::new("sort=created_at", |_| true)
            },
            Self::new(format!("slug={slug}"), move |number| number == middle),
            prefix(4),
            prefix(3),
            prefix(2),
            Self::new(
                format!(
                    "destination_url=https://www.example.com/some/path/{middle}?campaign=spring"
                ),
                move |number| number == middle,
            ),
            Self::new("destination_host=www.example.com", |_| true),
            Self::new(format!("external_id=offer/{middle}"), move |number| {
                number == middle
            }),
            Self::new("tag=spring", |_| true),
            Self::new("tag=print", |number| number % 100 == 0),
            Self::new("tag=print,spring", |number| number % 100 == 0),
            Self::new("state=active", move |number| {
                !is_expired(number) && !is_disabled(number)
            }),
            Self::new("state=expired", is_expired),
            Self::new("state=disabled", is_disabled),
            Self::new(format!("created_to={until}"), move |number| {
                number <= middle
            }),
        ])
    }

    fn new(query: impl Into<String>, finds: impl Fn(usize) -> bool + 'static) -> Self {
        Self {
            query: query.into(),
            finds: Box::new(finds),
            is_ascending: false,
        }
    }

    /// Checks that the first page of the list has the links that belong on the page.
    pub(super) async fn check(
        &self,
        api: SocketAddr,
        account: &LoadAccount,
        links: &[LinkId],
    ) -> anyhow::Result<()> {
        let found = (1..=links.len()).filter(|number| (self.finds)(*number));
        let mut expected: Vec<LinkId> = found.map(|number| links[number - 1]).collect();
        if !self.is_ascending {
            expected.reverse();
        }
        expected.truncate(LIMIT);
        let mut connection = HttpConnection::open(api).await?;
        let answer = connection
            .exchange(self.request(account).as_bytes())
            .await?;
        ensure!(
            answer.status == 200,
            "the list with {:?} is answered with {}",
            self.query,
            answer.status
        );
        let shown: Shown = serde_json::from_slice(answer.body)?;
        let ids: Vec<LinkId> = shown.items.iter().map(|link| link.id).collect();
        // A request looks at 10,000 rows at most.
        let is_full = ids.len() == expected.len();
        ensure!(
            expected.starts_with(&ids) && (is_full || shown.has_more),
            "the list with {:?} has {} links, {} expected",
            self.query,
            ids.len(),
            expected.len()
        );
        Ok(())
    }

    fn target(&self, address: SocketAddr, account: &LoadAccount) -> LoadTarget {
        let request = self.request(account).into_bytes();
        LoadTarget {
            address,
            connections: CONNECTIONS,
            requests: Arc::new(move |_, buffer| buffer.extend_from_slice(&request)),
            expected_status: 200,
        }
    }

    fn request(&self, account: &LoadAccount) -> String {
        requests::list(account, LIMIT, &self.query)
    }
}
