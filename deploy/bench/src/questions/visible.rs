//! How long after its create is a link in the list of its account?

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    answer::{LatencyCurve, QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    load::{self, FollowedCreates, LoadOutcome, LoadTarget, POLL_INTERVAL, Visibility},
    requests,
    stack::{BrokerKind, StackProcess},
};

const DATABASE: &str = "bench_visible";
const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);
/// Number of creates that are followed per second.
const FOLLOWED_PER_SECOND: f64 = 50.0;
/// Size of a list: more links than an account creates during the wait for one of its links.
const LIST_LIMIT: usize = 20;

/// Goals of p50 and p99 from the answer, in ms, with the embedded broker and with Apache Kafka.
const EMBEDDED_MS: [f64; 2] = [15.0, 50.0];
const APACHE_MS: [f64; 2] = [20.0, 60.0];

/// Figures of all rounds with one broker.
struct Series {
    broker: BrokerKind,
    name: &'static str,
    rates: Vec<f64>,
    rounds: Vec<Visibility>,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut series = [
        Series::new(BrokerKind::Embedded, "embedded broker"),
        Series::new(BrokerKind::Apache, "Apache Kafka"),
    ];
    for _ in bench.rounds("visible") {
        for of_broker in &mut series {
            of_broker.add_round(bench).await?;
        }
    }
    let mut lists = LoadOutcome::default();
    for round in series.iter().flat_map(|it| &it.rounds) {
        lists.add(&round.lists);
        lists.seconds += bench.duration().as_secs_f64();
    }
    Ok(QuestionAnswer {
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
    fn new(broker: BrokerKind, name: &'static str) -> Self {
        Self {
            broker,
            name,
            rates: Vec::new(),
            rounds: Vec::new(),
        }
    }

    async fn add_round(&mut self, bench: &BenchContext) -> anyhow::Result<()> {
        let url = DataSet::NO_LINKS.copy(&bench.server, DATABASE).await?;
        let accounts = data_set::accounts(&url).await?;
        let stack = StackProcess::start(bench, &url, self.broker).await?;
        let target = LoadTarget {
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
        let followed = FollowedCreates {
            address: stack.api,
            creates: requests::creates_in_step(&accounts),
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

    fn rows(&self) -> Vec<ReportRow> {
        let name = self.name;
        let milliseconds = |what: &str, of: fn(&Visibility) -> &LoadOutcome, share, reach| {
            let figures: Vec<f64> = self
                .rounds
                .iter()
                .map(|round| of(round).latency_ms(share))
                .collect();
            ReportRow::absolute(format!("{name}: {what}"), "ms", &figures, reach)
        };
        let goals_ms = match self.broker {
            BrokerKind::Embedded => EMBEDDED_MS,
            BrokerKind::Apache => APACHE_MS,
        };
        let [p50_most, p99_most] = goals_ms.map(|most| Some(TargetValue::AtMost(most)));
        vec![
            ReportRow::absolute(format!("{name}: load"), "creates/s", &self.rates, None),
            milliseconds("p50 from the answer", |it| &it.from_answer, 0.5, p50_most),
            milliseconds("p99 from the answer", |it| &it.from_answer, 0.99, p99_most),
            milliseconds("p50 from when it was due", |it| &it.from_due, 0.5, None),
            milliseconds("p99 from when it was due", |it| &it.from_due, 0.99, None),
        ]
    }

    /// Returns the latency curves of all rounds together.
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
