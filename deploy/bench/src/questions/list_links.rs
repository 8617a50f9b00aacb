//! How often can a page of an account's links be read in a second, the first page and a late page?

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use linkledger_core::{cursor::CursorScope, id::LinkId, shard::Shard};
use linkledger_http::route_table;
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    accounts::LoadAccount,
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    links::DataSetLinks,
    load::{self, HttpConnection, LoadTarget},
    pgbench::{self, PgbenchScript},
    requests,
    stack::{BrokerKind, StackProcess},
    statement::{self, ServiceStatement},
};

const CONNECTIONS: usize = 64;
const LIMIT: usize = 50;
/// Number of rows that the service reads: one more than the page has tells whether there is a next
/// page.
const ROWS: usize = LIMIT + 1;
const PAGES: [usize; 2] = [1, 10_000];
/// Warm-up before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Duration of pgbench with each number of clients that is tried.
const TRIAL: Duration = Duration::from_secs(2);

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let url = DataSet::ONE_ACCOUNT
        .copy(&bench.server, "bench_list_links")
        .await?;
    let account = data_set::accounts(&url).await?.remove(0);
    let mut links = DataSetLinks::of_account(&url, account.account_id)
        .await?
        .ids;
    links.reverse();
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    bench.server.checkpoint().await?;
    let list = List {
        api: stack.api,
        url: &url,
        account: &account,
        links: &links,
    };
    let mut pages = Vec::new();
    for number in PAGES {
        let page = list.page(number).await?;
        pages.push(MeasuredPage {
            statement: BaselineScript::of(&url, &page.statement).await?,
            select: BaselineScript::of(&url, &page.select).await?,
            page,
            measured: Vec::new(),
        });
    }
    for _ in bench.rounds("list-links") {
        for page in &mut pages {
            page.measure(bench, &url).await?;
        }
    }
    stack.stop().await?;
    Ok(answer(&pages, links.len()))
}

fn answer(pages: &[MeasuredPage], links: usize) -> QuestionAnswer {
    let mut rows: Vec<ReportRow> = pages.iter().flat_map(MeasuredPage::rows).collect();
    let rounds = pages[0].measured.iter().zip(&pages[1].measured);
    let apart: Vec<f64> = rounds.map(|(a, b)| a.max(*b) / a.min(*b)).collect();
    rows.push(ReportRow::absolute(
        format!(
            "the faster of pages {} and {} to the slower",
            PAGES[0], PAGES[1]
        ),
        "times",
        &apart,
        Some(TargetValue::AtMost(1.2)),
    ));
    QuestionAnswer {
        question: "list-links",
        title: "Pages of a list of links",
        rows,
        latencies: Vec::new(),
        notes: vec![format!(
            "The account has {links} links; a page shows {LIMIT}."
        )],
    }
}

/// The list of an account, newest first.
pub(super) struct List<'a> {
    pub(super) api: SocketAddr,
    pub(super) url: &'a str,
    pub(super) account: &'a LoadAccount,
    pub(super) links: &'a [LinkId],
}

/// One page of the list.
pub(super) struct Page {
    number: usize,
    pub(super) target: LoadTarget,
    /// Statement of the service.
    pub(super) statement: String,
    /// The simplest statement that finds the same rows.
    pub(super) select: String,
}

/// A page with the figures of its rounds.
struct MeasuredPage {
    page: Page,
    measured: Vec<f64>,
    statement: BaselineScript,
    select: BaselineScript,
}

/// A script of pgbench with the figures of its rounds.
struct BaselineScript {
    script: String,
    clients: u32,
    measured: Vec<f64>,
}

impl BaselineScript {
    async fn of(url: &str, script: &str) -> anyhow::Result<Self> {
        Ok(Self {
            script: script.to_owned(),
            clients: pgbench::fastest_clients(url, script, TRIAL).await?,
            measured: Vec::new(),
        })
    }

    async fn measure(&mut self, bench: &BenchContext, url: &str) -> anyhow::Result<()> {
        let script = PgbenchScript {
            text: &self.script,
            clients: self.clients,
            variables: &[],
        };
        let rate = pgbench::transactions_per_second(url, script, bench.duration()).await?;
        self.measured.push(rate);
        Ok(())
    }
}

/// Members of a page in a response.
#[derive(Deserialize)]
struct Shown {
    items: Vec<ShownLink>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct ShownLink {
    id: LinkId,
}

impl List<'_> {
    /// Returns the page with this number, from 1. Checks that the service and the statements of the
    /// baselines return the links that belong on the page.
    pub(super) async fn page(&self, number: usize) -> anyhow::Result<Page> {
        let begin = (number - 1) * LIMIT;
        let expected = self.links.get(begin..begin + LIMIT);
        let expected = expected.with_context(|| format!("the list has no page {number}"))?;
        let before = begin.checked_sub(1).map(|last| self.links[last]);
        let cursor = before.map(|link| format!("cursor={}", self.cursor(link)));
        let query = cursor.unwrap_or_default();
        let request = requests::list(self.account, LIMIT, &query).into_bytes();
        let shown = self.ask(&request).await?;
        let ids: Vec<LinkId> = shown.items.into_iter().map(|link| link.id).collect();
        ensure!(ids == expected, "page {number} begins at {:?}", ids.first());
        let next_cursor = Some(self.cursor(expected[LIMIT - 1]));
        ensure!(
            shown.next_cursor == next_cursor,
            "cursors are made in another way"
        );
        let before = before.map_or(Uuid::max(), LinkId::uuid);
        let statement = self.statement(before, expected).await?;
        let select = self.select(before, expected).await?;
        Ok(Page {
            number,
            target: LoadTarget {
                address: self.api,
                connections: CONNECTIONS,
                requests: Arc::new(move |_, buffer| buffer.extend_from_slice(&request)),
                expected_status: 200,
            },
            statement,
            select,
        })
    }

    /// Makes the cursor as the service does.
    fn cursor(&self, last: LinkId) -> String {
        let scope = CursorScope {
            list: route_table::LINKS.to_owned(),
            filters: String::new(),
            account_id: self.account.account_id,
        };
        scope.cursor_after(&last.uuid().as_u128())
    }

    async fn ask(&self, request: &[u8]) -> anyhow::Result<Shown> {
        let mut connection = HttpConnection::open(self.api).await?;
        let answer = connection.exchange(request).await?;
        ensure!(
            answer.status == 200,
            "a page is answered with {}",
            answer.status
        );
        Ok(serde_json::from_slice(answer.body)?)
    }

    /// Returns the statement with which the service has read the page, for one request.
    async fn statement(&self, before: Uuid, expected: &[LinkId]) -> anyhow::Result<String> {
        let statement = ServiceStatement::last_on("read_model.links", self.url).await?;
        let text = statement.with(&[
            &format!("'{{{}}}'", Shard::of(self.account.account_id)),
            &format!("'{{{}}}'", self.account.account_id.uuid()),
            &format!("'{{{before}}}'"),
            &format!("'{{{ROWS}}}'"),
        ])?;
        self.check(&text, expected).await?;
        Ok(text)
    }

    /// Returns the statement that reads the rows of the page by the primary key, without the
    /// position of the read table and without parked accounts.
    async fn select(&self, before: Uuid, expected: &[LinkId]) -> anyhow::Result<String> {
        let select = format!(
            "SELECT link_id, slug, destination_url, version, created_at FROM read_model.links \
             WHERE generation = 1 AND account_id = '{}' AND link_id < '{before}' \
             ORDER BY link_id DESC LIMIT {ROWS};",
            self.account.account_id.uuid(),
        );
        self.check(&select, expected).await?;
        Ok(select)
    }

    async fn check(&self, script: &str, expected: &[LinkId]) -> anyhow::Result<()> {
        let found = statement::link_ids(self.url, script).await?;
        let mut pairs = found.iter().zip(expected);
        ensure!(
            pairs.all(|(id, link)| *id == link.uuid()) && found.len() == ROWS,
            "pgbench would read other rows"
        );
        Ok(())
    }
}

impl MeasuredPage {
    async fn measure(&mut self, bench: &BenchContext, url: &str) -> anyhow::Result<()> {
        let outcome = load::closed_loop(&self.page.target, WARM_UP, bench.duration()).await?;
        self.measured.push(outcome.all_expected()?.per_second());
        self.statement.measure(bench, url).await?;
        self.select.measure(bench, url).await
    }

    fn rows(&self) -> [ReportRow; 2] {
        let page = format!(
            "page {} of {LIMIT}, {CONNECTIONS} connections",
            self.page.number
        );
        let row = |page: String, name: &str, baseline: &BaselineScript, reach| {
            let name = format!("pgbench, {name}, {} clients", baseline.clients);
            let baseline = (name.as_str(), baseline.measured.as_slice());
            ReportRow::ratio(page, "pages/s", &self.measured, baseline, reach)
        };
        let same = Some(TargetValue::AtLeast(0.6));
        let rows_alone = Some(TargetValue::AtLeast(0.55));
        [
            row(page.clone(), "the same SELECT", &self.statement, same),
            row(
                format!("{page}, to its rows alone"),
                "SELECT of the rows",
                &self.select,
                rows_alone,
            ),
        ]
    }
}
