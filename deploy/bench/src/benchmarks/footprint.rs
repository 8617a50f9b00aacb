//! Benchmark of the footprint: memory of the services, and time from start to ready.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::Context as _;
use linkledger_core::{cloud_event::TOPIC, shard::SHARD_COUNT};
use linkledger_servers::free_address;
use nix::unistd::Pid;
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use tokio::time::sleep;

use crate::{
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    load::Requests,
    process::ServiceProcess,
    report::{self, Report},
    requests,
};

const CONNECTIONS: usize = 64;
/// Time from readiness until the memory at rest is measured.
const REST: Duration = Duration::from_secs(1);
/// Size of the cache: room for the links of `HOT` and little more. The links take the whole size of
/// the cache.
const HOT_CACHE_MIB: u32 = 156;
/// Data set whose links are followed once each, so that all links are in the cache.
const HOT: DataSet = DataSet::ONE_ACCOUNT;
const HOT_LINKS: &str = "query-api, 1000000 hot links, besides its cache's bound";
/// Default size of the redirect cache.
const CACHE_MIB: u32 = 64;
/// Names of the services, in the order of their start.
const SERVICES: [&str; 3] = ["command-api", "projector", "query-api"];
/// Figures of a service, with units and goals.
const MEASURES: [(&str, &str, f64); 3] = [
    ("start to ready", "ms", 1_000.0),
    ("at rest", "MiB", 64.0),
    ("at full load", "MiB", 64.0),
];

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    for _ in bench.rounds("footprint") {
        add_round(bench, &mut figures).await?;
    }
    add_hot_links(bench, &mut figures).await?;
    let mut rows = Vec::new();
    for name in SERVICES {
        rows.extend(MEASURES.map(|(what, unit, most)| {
            let row = figures.row(&format!("{name}, {what}"), unit);
            row.at_most(most)
        }));
    }
    rows.push(figures.row(HOT_LINKS, "MiB").at_most(64.0));
    let title = "Memory of each service, and its start";
    let report = Report::new("footprint", title, rows).note(
        "Memory is what is resident, the program's own pages included; at full load the most since the start.",
    );
    Ok(report.note(format!(
        "The hot links fill a cache of {HOT_CACHE_MIB} MiB, which is what is left out; measured once."
    )))
}

async fn add_round(bench: &BenchContext, figures: &mut Figures) -> anyhow::Result<()> {
    let (url, accounts) = bench.copy(DataSet::NO_LINKS).await?;
    let services = Services::start(bench, &url, CACHE_MIB).await?;
    sleep(REST).await;
    let at_rest = services.memory_mib("VmRSS")?;
    let creates = requests::creates(&accounts).to(services.api, CONNECTIONS);
    creates.maximum(bench.duration()).await?;
    let most = services.memory_mib("VmHWM")?;
    for (nth, name) in SERVICES.into_iter().enumerate() {
        let of_service = [services.ready_ms[nth], at_rest[nth], most[nth]];
        for ((what, ..), figure) in MEASURES.into_iter().zip(of_service) {
            figures.add(&format!("{name}, {what}"), figure);
        }
    }
    services.stop().await
}

/// Measures the memory of query-api beyond the size of its full cache.
async fn add_hot_links(bench: &BenchContext, figures: &mut Figures) -> anyhow::Result<()> {
    let (url, _) = bench.copy(HOT).await?;
    let services = Services::start(bench, &url, HOT_CACHE_MIB).await?;
    let redirects = Requests::new(302, |number, buffer| {
        requests::visit(&DataSet::slug(number + 1), "", buffer);
    });
    let redirects = redirects.to(services.short_host, CONNECTIONS);
    redirects.each_once(HOT.links()).await?;
    let [_, _, most] = services.memory_mib("VmHWM")?;
    figures.add(HOT_LINKS, most - f64::from(HOT_CACHE_MIB));
    services.stop().await
}

/// The three services, ready; killed when dropped.
struct Services {
    each: [ServiceProcess; 3],
    /// Time of each service from its start to the first readiness.
    ready_ms: [f64; 3],
    /// Address at which command-api accepts creates.
    api: SocketAddr,
    /// Address at which query-api serves short links.
    short_host: SocketAddr,
    /// The broker, which must live as long as the services.
    _broker: MockCluster<'static, DefaultProducerContext>,
}

impl Services {
    /// Starts the services one after the other on the database, with a broker inside this process.
    async fn start(bench: &BenchContext, url: &str, cache_mib: u32) -> anyhow::Result<Self> {
        let broker = MockCluster::new(1).context("can't start the Kafka broker")?;
        broker
            .create_topic(TOPIC, i32::from(SHARD_COUNT), 1)
            .context("can't create the topic")?;
        let addresses = [free_address()?, free_address()?, free_address()?];
        let [api, reads, short_host] = addresses.map(|address| address.to_string());
        let cache_mib = cache_mib.to_string();
        let environment = [
            ("DATABASE_URL", url),
            ("KAFKA_BROKERS", &broker.bootstrap_servers()),
            ("RATE_LIMIT", "0"),
            ("CLICKS", "off"),
            ("REDIRECT_CACHE_MIB", &cache_mib),
        ];
        let arguments: [&[&str]; 3] = [
            &["serve", "--api-listen", &api],
            &["run"],
            &[
                "serve",
                "--api-listen",
                &reads,
                "--short-listen",
                &short_host,
            ],
        ];
        let mut ready_ms = [0.0; 3];
        let mut each = Vec::new();
        for ((name, arguments), ms) in SERVICES.into_iter().zip(arguments).zip(&mut ready_ms) {
            let mut service = ServiceProcess::start(bench, (name, name), arguments, &environment)?;
            *ms = service.until_ready().await?.as_secs_f64() * 1_000.0;
            each.push(service);
        }
        Ok(Self {
            each: each.try_into().expect("three services"),
            ready_ms,
            api: addresses[0],
            short_host: addresses[2],
            _broker: broker,
        })
    }

    /// Returns a figure of `/proc/<pid>/status` (`proc_pid_status(5)`) for each service, in MiB.
    fn memory_mib(&self, name: &str) -> anyhow::Result<[f64; 3]> {
        let mut each = [0.0; 3];
        for (mib, service) in each.iter_mut().zip(&self.each) {
            *mib = memory_mib(service.pid()?, name)?;
        }
        Ok(each)
    }

    async fn stop(self) -> anyhow::Result<()> {
        for service in self.each {
            service.stop().await?;
        }
        Ok(())
    }
}

fn memory_mib(process: Pid, name: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = report::field(&status, name);
    let kib = kib.trim_end_matches(" kB").parse::<u32>();
    let kib = kib.with_context(|| format!("process {process} has no {name}"))?;
    Ok(f64::from(kib) / 1_024.0)
}

#[cfg(test)]
mod tests {
    use std::{
        hint::black_box,
        process::{Command, Stdio},
    };

    use nix::unistd::Pid;

    use super::memory_mib;

    // Compares no difference: other tests of this process allocate and free memory meanwhile.
    #[test]
    fn resident_memory_is_of_the_given_process() {
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(other.id()).unwrap());
        let used = black_box(vec![1_u8; 64 << 20]);
        for name in ["VmRSS", "VmHWM"] {
            let of_this = memory_mib(Pid::this(), name).unwrap();
            let of_other = memory_mib(pid, name).unwrap();
            assert!(of_this >= 64.0, "{name}: {of_this}");
            assert!(of_other < 64.0, "{name}: {of_other}");
        }
        drop(used);
        assert!(memory_mib(Pid::this(), "VmNothing").is_err());
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
