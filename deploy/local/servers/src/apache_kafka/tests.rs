//! Starts, restarts and ends of brokers, with processes that are killed. A test that starts a broker
//! returns at once unless `LINKLEDGER_TEST_KAFKA` is `apache`: the other tests need no Java.

use std::{env, fs, path::Path, process::Stdio, time::Duration};

use rdkafka::{
    ClientConfig, Message as _, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    producer::{FutureProducer, FutureRecord},
};

use super::*;
use crate::test_programs::create_program;

/// Longest time until a condition holds.
const DEADLINE: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const TOPIC: &str = "facts";
const CLIENT_TIMEOUT: Duration = Duration::from_mins(3);
const HOLDER_DIR: &str = "LINKLEDGER_TEST_KAFKA_HOLDER_DIR";

/// Returns true if the tests use an Apache Kafka.
fn is_apache() -> bool {
    env::var("LINKLEDGER_TEST_KAFKA").is_ok_and(|kind| kind == "apache")
}

/// Polls until `ask` returns an answer, and returns the answer.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let begun = Instant::now();
    while begun.elapsed() < DEADLINE {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    panic!("not within {DEADLINE:?}: {what}");
}

fn client(kafka: &ApacheKafka) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.bootstrap_servers());
    config.set("group.id", "test");
    config
}

async fn create_topic(kafka: &ApacheKafka) -> anyhow::Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(kafka).create()?;
    let topic = NewTopic::new(TOPIC, 1, TopicReplication::Fixed(1));
    let results = admin.create_topics(&[topic], &AdminOptions::new()).await?;
    for result in results {
        result.map_err(|(topic, code)| anyhow::anyhow!("{topic}: {code}"))?;
    }
    Ok(())
}

async fn write(kafka: &ApacheKafka, fact: &str) -> anyhow::Result<()> {
    let producer: FutureProducer = client(kafka).create()?;
    let record = FutureRecord::<str, str>::to(TOPIC).payload(fact);
    let sent = producer.send(record, CLIENT_TIMEOUT).await;
    sent.map_err(|(error, _)| error)?;
    Ok(())
}

fn read(kafka: &ApacheKafka, count: usize) -> anyhow::Result<Vec<String>> {
    let consumer: BaseConsumer = client(kafka).create()?;
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(TOPIC, 0, rdkafka::Offset::Beginning)?;
    consumer.assign(&partitions)?;
    let mut facts = Vec::new();
    while facts.len() < count {
        let message = consumer.poll(CLIENT_TIMEOUT).context("a record")??;
        facts.push(String::from_utf8(
            message.payload().unwrap_or_default().to_vec(),
        )?);
    }
    Ok(facts)
}

fn options(data_dir: &Path) -> ApacheKafkaOptions {
    ApacheKafkaOptions {
        data_dir: Some(data_dir.to_owned()),
        ..ApacheKafkaOptions::default()
    }
}

#[tokio::test]
async fn records_and_address_survive_kill_and_restart() -> anyhow::Result<()> {
    if !is_apache() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let mut kafka = ApacheKafka::start(options(dir.path())).await?;
    let address = kafka.bootstrap_servers();
    create_topic(&kafka).await?;
    write(&kafka, "one").await?;
    kafka.kill()?;
    kafka.restart().await?;
    assert_eq!(kafka.bootstrap_servers(), address);
    write(&kafka, "two").await?;
    kafka.restart().await?;
    write(&kafka, "three").await?;
    kafka.stop().await?;
    drop(kafka);

    let kafka = ApacheKafka::start(options(dir.path())).await?;
    assert_eq!(kafka.bootstrap_servers(), address);
    assert_eq!(read(&kafka, 3)?, ["one", "two", "three"]);
    Ok(())
}

#[tokio::test]
async fn broker_death_is_detected() -> anyhow::Result<()> {
    if !is_apache() {
        return Ok(());
    }
    let mut kafka = ApacheKafka::start(ApacheKafkaOptions::default()).await?;
    kill(kafka.pid(), Signal::SIGKILL)?;
    let death = tokio::time::timeout(CLIENT_TIMEOUT, kafka.died()).await?;
    assert!(death.to_string().contains("ended by itself"), "{death}");
    Ok(())
}

#[tokio::test]
async fn second_start_on_folder_is_refused() -> anyhow::Result<()> {
    if !is_apache() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let _kafka = ApacheKafka::start(options(dir.path())).await?;
    let error = ApacheKafka::start(options(dir.path())).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("is in use by another linkledger process"),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn refused_setting_is_named_in_one_line() -> anyhow::Result<()> {
    if !is_apache() {
        return Ok(());
    }
    let wrong = ApacheKafkaOptions {
        settings: vec![("log.retention.ms".to_owned(), "soon".to_owned())],
        ..ApacheKafkaOptions::default()
    };
    let error = ApacheKafka::start(wrong).await.unwrap_err().to_string();
    assert!(
        error.contains("Invalid value soon for configuration log.retention.ms"),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
    Ok(())
}

/// Holds a broker if `HOLDER_DIR` names a folder; returns at once as an ordinary test.
#[tokio::test]
async fn hold_until_killed() -> anyhow::Result<()> {
    let Some(dir) = env::var_os(HOLDER_DIR) else {
        return Ok(());
    };
    let kafka = ApacheKafka::start(ApacheKafkaOptions::default()).await?;
    let report = Path::new(&dir).join("report");
    let unfinished = report.with_extension("unfinished");
    let folder = kafka.launcher.data_dir().display();
    fs::write(&unfinished, format!("{} {folder}", kafka.pid()))?;
    fs::rename(&unfinished, &report)?;
    std::future::pending().await
}

#[tokio::test]
async fn killed_holder_ends_broker_and_temporary_folder() -> anyhow::Result<()> {
    if !is_apache() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let (_, module) = module_path!().split_once("::").context("a module")?;
    let mut holder = std::process::Command::new(env::current_exe()?)
        .args(["--exact", &format!("{module}::hold_until_killed")])
        .env(HOLDER_DIR, dir.path())
        .stdout(Stdio::null())
        .spawn()?;
    let report = eventually("the holder starts a broker", || async {
        fs::read_to_string(dir.path().join("report")).ok()
    })
    .await;
    let (pid, folder) = report.split_once(' ').context("two words")?;
    assert!(Path::new(folder).exists());
    // The watchdog must also end a broker that is stopped by SIGSTOP.
    kill(Pid::from_raw(pid.parse()?), Signal::SIGSTOP)?;
    holder.kill()?;
    holder.wait()?;
    eventually("broker and folder are gone", || async {
        let is_gone =
            !Path::new(folder).exists() && !Path::new("/proc").join(pid).join("exe").exists();
        is_gone.then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn next_start_ends_leftover_broker() -> anyhow::Result<()> {
    if !is_apache() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().canonicalize()?;
    // This process has the command line of a broker of this folder, and no watchdog.
    let mut left_over = std::process::Command::new("/bin/sh")
        .args(["-c", "sleep 60; true", "start"])
        .arg(&data_dir)
        .spawn()?;
    // The kernel shows the arguments of a process a moment after the start.
    let pid = Pid::from_raw(left_over.id().try_into()?);
    eventually("the arguments of the process can be read", || async {
        left_over::is_broker_of(pid, &data_dir).then_some(())
    })
    .await;
    left_over::record(&data_dir, left_over.id())?;
    let waited = std::thread::spawn(move || left_over.wait());
    let _kafka = ApacheKafka::start(options(dir.path())).await?;
    let status = waited.join().expect("the waiting thread ends")?;
    assert!(!status.success(), "{status}");
    Ok(())
}

#[tokio::test]
async fn unrelated_process_with_recorded_id_survives() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut innocent = std::process::Command::new("/bin/sleep").arg("60").spawn()?;
    left_over::record(dir.path(), innocent.id())?;
    left_over::end(dir.path()).await?;
    assert!(innocent.try_wait()?.is_none(), "the process is alive");
    innocent.kill()?;
    innocent.wait()?;
    Ok(())
}

/// Runs `fetch` with only the usual tools and these programs in PATH. Returns standard error.
fn fetch_with_programs(programs: &[(&str, &str)]) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let launcher = Launcher::write(dir.path().to_owned(), &[], Vec::new())?;
    let bin = dir.path().join("bin");
    fs::create_dir(&bin)?;
    for tool in ["cat", "cksum", "mkdir", "mv", "sed", "tr"] {
        let paths = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(tool));
        let path = paths.iter().find(|path| path.exists()).context(tool)?;
        std::os::unix::fs::symlink(path, bin.join(tool))?;
    }
    for (program, script) in programs {
        create_program(&bin.join(program), script)?;
    }
    let mut command = launcher.script("fetch");
    let output = command
        .env_clear()
        .env("PATH", &bin)
        .env("HOME", dir.path())
        .output()?;
    assert!(!output.status.success());
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn missing_program_is_named_in_one_line() -> anyhow::Result<()> {
    let java = |version| ("java", format!("echo 'openjdk version \"{version}\"' >&2"));
    let (java_11, java_17) = (java("11.0.22"), java("17.0.15"));
    let of = |(name, script): &(&'static str, String)| (*name, script.clone());
    let cases = [
        (
            vec![],
            "Apache Kafka needs Java 17 or newer (Debian: apt-get install default-jre-headless)\n",
        ),
        (
            vec![of(&java_11)],
            "is version 11 (Debian: apt-get install default-jre-headless)\n",
        ),
        (
            vec![of(&java_17)],
            "Apache Kafka is downloaded with Maven, which is missing (Debian: apt-get install maven)\n",
        ),
        (
            vec![
                of(&java_17),
                ("mvn", "echo '[ERROR] no way there'; exit 1".to_owned()),
            ],
            "Maven could not download Apache Kafka: no way there\n",
        ),
    ];
    for (programs, expected) in cases {
        let programs: Vec<_> = programs
            .iter()
            .map(|(name, script)| (*name, script.as_str()))
            .collect();
        let message = fetch_with_programs(&programs)?;
        assert!(
            message.ends_with(expected) && message.lines().count() == 1,
            "{message}"
        );
    }
    Ok(())
}
