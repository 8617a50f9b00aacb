//! Benchmark of a list of links: pages per second, of the first page and of a late page.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use linkledger_core::{cursor::CursorScope, id::LinkId, shard::Shard};
use linkledger_http::route_table;
use uuid::Uuid;

use super::get_link::TRIAL;
use crate::{
    accounts::LoadAccount,
    bench::BenchContext,
    data_set::DataSet,
    figures::{Figures, ReportRow},
    links::{DataSetLinks, ShownPage},
    load::LoadTarget,
    pgbench::{self, PgbenchScript},
    report::Report,
    requests,
    stack::BrokerKind,
    statement::ServiceStatement,
};

const CONNECTIONS: usize = 64;
const LIMIT: usize = 50;
/// Number of rows that the service reads: one more than the page has tells whether there is a next
/// page.
const ROWS: usize = LIMIT + 1;
const PAGES: [usize; 2] = [1, 10_000];
/// Baselines of a page: what pgbench runs, and the goal.
const SELECTS: [(&str, f64); 2] = [("the same SELECT", 0.6), ("SELECT of the rows", 0.55)];
const APART: &str = "the faster of pages 1 and 10000 to the slower";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let stage = bench
        .stage(DataSet::ONE_ACCOUNT, BrokerKind::Embedded)
        .await?;
    let account = &stage.accounts[0];
    let links = DataSetLinks::of_account(&stage.url, account.account_id).await?;
    let mut links = links.ids;
    links.reverse();
    bench.server.checkpoint().await?;
    let list = List {
        api: stage.stack.api,
        url: &stage.url,
        account,
        links: &links,
    };
    let mut pages = Vec::new();
    for number in PAGES {
        let page = list.page(number).await?;
        let mut clients = [0; 2];
        for (clients, select) in clients.iter_mut().zip(&page.selects) {
            *clients = pgbench::fastest_clients(&stage.url, select, TRIAL).await?;
        }
        pages.push((page, clients));
    }
    let mut figures = Figures::default();
    for _ in bench.rounds("list-links") {
        let mut rates = Vec::new();
        for (page, clients) in &pages {
            let rate = page.target.maximum(bench.duration()).await?.per_second();
            figures.add(&page.name, rate);
            rates.push(rate);
            for ((text, clients), (what, _)) in page.selects.iter().zip(clients).zip(SELECTS) {
                let script = PgbenchScript {
                    text,
                    clients: *clients,
                    variables: &[],
                };
                let duration = bench.duration();
                let rate = pgbench::transactions_per_second(&stage.url, script, duration).await?;
                figures.add(&page.baseline(what), rate);
            }
        }
        figures.add(APART, rates[0].max(rates[1]) / rates[0].min(rates[1]));
    }
    stage.stack.stop().await?;
    let rows = pages
        .iter()
        .flat_map(|(page, clients)| page.rows(&figures, *clients));
    let rows = rows.chain([figures.row(APART, "times").at_most(1.2)]);
    Ok(
        Report::new("list-links", "Pages of a list of links", rows).note(format!(
            "The account has {} links; a page shows {LIMIT}.",
            links.len()
        )),
    )
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
    name: String,
    target: LoadTarget,
    /// The statement of the service, and the simplest statement that finds the same rows.
    pub(super) selects: [String; 2],
}

impl Page {
    /// Returns the name of the figures of a baseline.
    fn baseline(&self, what: &str) -> String {
        format!("{}, {what}", self.name)
    }

    fn rows(&self, figures: &Figures, clients: [u32; 2]) -> [ReportRow; 2] {
        let [same, rows] = [0, 1].map(|nth| {
            let (what, goal) = SELECTS[nth];
            let row = figures.ratio(&self.name, "pages/s", &self.baseline(what));
            row.to(format!("pgbench, {what}, {} clients", clients[nth]))
                .at_least(goal)
        });
        [
            same,
            rows.named(format!("{}, to its rows alone", self.name)),
        ]
    }
}

impl List<'_> {
    /// Returns the page with this number, from 1. Checks that the service returns the links that
    /// belong on the page.
    pub(super) async fn page(&self, number: usize) -> anyhow::Result<Page> {
        let begin = (number - 1) * LIMIT;
        let expected = self.links.get(begin..begin + LIMIT);
        let expected = expected.with_context(|| format!("the list has no page {number}"))?;
        let before = begin.checked_sub(1).map(|last| self.links[last]);
        let cursor = before.map(|link| format!("cursor={}", self.cursor(link)));
        let request = requests::list(self.account, LIMIT, &cursor.unwrap_or_default());
        let shown = ShownPage::get(self.api, &request).await?;
        let ids = shown.ids();
        ensure!(ids == expected, "page {number} begins at {:?}", ids.first());
        let before = before.map_or(Uuid::max(), LinkId::uuid);
        let selects = [self.statement(before).await?, self.select(before)];
        let requests = requests::in_turn(200, vec![request.into_bytes()]);
        Ok(Page {
            name: format!("page {number} of {LIMIT}, {CONNECTIONS} connections"),
            target: requests.to(self.api, CONNECTIONS),
            selects,
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

    /// Returns the statement with which the service has read the page, for one request.
    async fn statement(&self, before: Uuid) -> anyhow::Result<String> {
        let statement = ServiceStatement::last_on("read_model.links", self.url).await?;
        statement.with(&[
            &format!("'{{{}}}'", Shard::of(self.account.account_id)),
            &format!("'{{{}}}'", self.account.account_id.uuid()),
            &format!("'{{{before}}}'"),
            &format!("'{{{ROWS}}}'"),
        ])
    }

    /// Returns the statement that reads the rows of the page by the primary key, without the
    /// position of the read table and without parked accounts.
    fn select(&self, before: Uuid) -> String {
        format!(
            "SELECT link_id, slug, destination_url, version, created_at FROM read_model.links \
             WHERE generation = 1 AND account_id = '{}' AND link_id < '{before}' \
             ORDER BY link_id DESC LIMIT {ROWS};",
            self.account.account_id.uuid(),
        )
    }
}
