//! How long after its create is a link in the list of its account?

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    answer::{Answer, LatencyCurve, Reach, Row},
    bench::Bench,
    data_set::{self, DataSet},
    load::{self, Followed, Outcome, POLL_INTERVAL, Target, Visibility},
    requests,
    stack::{Broker, Stack},
};

const DATABASE: &str = "bench_visible";
const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);
/// How many creates are followed in a second.
const FOLLOWED_PER_SECOND: f64 = 50.0;
/// More than an account creates while one of its links is waited for.
const LIST_LIMIT: usize = 20;

const P50_MS: f64 = 15.0;
const P99_MS: f64 = 50.0;

/// What the rounds with one broker have come to.
struct Series {
    broker: Broker,
    name: &'static str,
    rates: Vec<f64>,
    rounds: Vec<Visibility>,
}

pub(super) async fn ask(bench: &Bench) -> anyhow::Result<Answer> {
    let mut series = [
        Series::new(Broker::Embedded, "embedded broker"),
        Series::new(Broker::Apache, "Apache Kafka"),
    ];
    for _ in bench.rounds("visible") {
        for of_broker in &mut series {
            of_broker.add_round(bench).await?;
        }
    }
    let mut lists = Outcome::default();
    for round in series.iter().flat_map(|it| &it.rounds) {
        lists.add(&round.lists);
        lists.seconds += bench.duration().as_secs_f64();
    }
    Ok(Answer {
        question: "visible",
        title: "Create to visible in the list, at half of the maximum load",
        rows: series.iter().flat_map(Series::rows).collect(),
        latencies: series.iter().flat_map(Series::curves).collect(),
        notes: vec![format!(
            "Visible: {FOLLOWED_PER_SECOND} creates a second are followed by {:.0} lists, of which one \
             takes {:.1} ms (p50): figures are too high by that, and by up to {} ms or a tenth.",
            lists.per_second(),
            lists.latency_ms(0.5),
            POLL_INTERVAL.as_millis(),
        )],
    })
}

impl Series {
    fn new(broker: Broker, name: &'static str) -> Self {
        Self {
            broker,
            name,
            rates: Vec::new(),
            rounds: Vec::new(),
        }
    }

    async fn add_round(&mut self, bench: &Bench) -> anyhow::Result<()> {
        let url = DataSet::NO_LINKS.copy(&bench.server, DATABASE).await?;
        let accounts = data_set::accounts(&url).await?;
        let stack = Stack::start(bench, &url, self.broker).await?;
        let target = Target {
            address: stack.api,
            connections: CONNECTIONS,
            requests: requests::creates(&accounts),
            expected_status: 201,
        };
        let maximum = load::closed_loop(&target, WARM_UP, bench.duration()).await?;
        let half = maximum.all_expected()?.per_second() / 2.0;
        stack.until_settled().await?;
        let others = load::open_loop(
            &target,
            (half - FOLLOWED_PER_SECOND).max(1.0),
            WARM_UP + bench.duration(),
        );
        let followed = Followed {
            address: stack.api,
            creates: requests::creates(&accounts),
            lists: requests::lists(&accounts, LIST_LIMIT),
        };
        let followed = async {
            sleep(WARM_UP).await;
            load::follow(&followed, FOLLOWED_PER_SECOND, bench.duration()).await
        };
        let (others, followed) = tokio::try_join!(others, followed)?;
        others.all_expected()?;
        stack.stop().await?;
        self.rates.push(half);
        self.rounds.push(followed);
        Ok(())
    }

    fn rows(&self) -> Vec<Row> {
        let name = self.name;
        let milliseconds = |what: &str, of: fn(&Visibility) -> &Outcome, share, reach| {
            let figures: Vec<f64> = self
                .rounds
                .iter()
                .map(|round| of(round).latency_ms(share))
                .collect();
            Row::absolute(format!("{name}: {what}"), "ms", &figures, reach)
        };
        let at_most = |most| Some(Reach::AtMost(most));
        vec![
            Row::absolute(format!("{name}: load"), "creates/s", &self.rates, None),
            milliseconds(
                "p50 from the answer",
                |it| &it.from_answer,
                0.5,
                at_most(P50_MS),
            ),
            milliseconds(
                "p99 from the answer",
                |it| &it.from_answer,
                0.99,
                at_most(P99_MS),
            ),
            milliseconds("p50 from when it was due", |it| &it.from_due, 0.5, None),
            milliseconds("p99 from when it was due", |it| &it.from_due, 0.99, None),
        ]
    }

    /// Of all rounds together.
    fn curves(&self) -> [LatencyCurve; 2] {
        let mut all = Visibility::default();
        for round in &self.rounds {
            all.add(round);
        }
        let name = self.name;
        [
            all.from_answer.curve(format!("{name}, from the answer")),
            all.from_due.curve(format!("{name}, from when it was due")),
        ]
    }
}
