//! The local stack: starts database, broker and services, in this order. The services run in this
//! process.

mod admin_key;
mod broker;
mod database;
mod service_environment;
mod services;
mod webhook_keys;

use std::{
    fmt::Write as _,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context as _, ensure};
use linkledger_core::clock::SystemClock;
use linkledger_service::{
    kafka_config::{ClicksConfig, KafkaConfig, SecurityProtocol},
    lifecycle::{self, Tasks, listen},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    data_folder::DataFolder,
    demo_account::{DemoAccount, demo_key},
    environment::EnvironmentFile,
    options::StackOptions,
    output::note,
};
use admin_key::admin_key;
use broker::{StackBroker, fixed_port};
use database::StackDatabase;
use service_environment::ServiceConfigs;
use services::RunningServices;
use webhook_keys::webhook_keys;

/// The sockets at the ports that the options name, bound before anything is started.
struct StackSockets {
    api: TcpListener,
    short_host: TcpListener,
    /// Listener of operators: their console, and the admin API.
    admin: TcpListener,
    /// Fixed port of the stack's own broker.
    kafka: Option<TcpListener>,
}

/// Runs the stack until Ctrl-C or SIGTERM.
///
/// # Errors
/// Returns an error, of one line, that names the part of the stack that failed.
pub(crate) async fn up(options: StackOptions) -> anyhow::Result<()> {
    if options.kafka_brokers.is_none() {
        ensure!(
            options.kafka_security.protocol == SecurityProtocol::Plaintext,
            "the stack's own Kafka broker has neither TLS nor SASL; for \
             --kafka-security-protocol {} name your own brokers with --kafka-brokers",
            options.kafka_security.protocol.name()
        );
    }
    let configs = ServiceConfigs::of_environment()?;
    // A folder that cannot be read is an error when it is opened.
    let earlier = EnvironmentFile::read(&DataFolder::locate(&options.data_dir));
    for warning in service_environment::warnings(earlier.ok().flatten().as_ref()) {
        note(&warning);
    }
    let sockets = StackSockets {
        api: listen_at(options.api_port, "--api-port").await?,
        short_host: listen_at(options.short_port, "--short-port").await?,
        admin: listen_at(options.admin_port, "--admin-port").await?,
        kafka: match options.kafka_port {
            Some(port) => Some(listen_at(port, "--kafka-port").await?),
            None => None,
        },
    };
    let folder = DataFolder::open(&options.data_dir)?;
    let mut tasks = Tasks::new(CancellationToken::new());
    lifecycle::shutdown_on_signal(&mut tasks)?;
    say("linkledger is starting …")?;
    if cfg!(debug_assertions) {
        say("This build is for development; to measure speed, use cargo run --release.")?;
    }
    let shutdown = tasks.shutdown();
    let database = tokio::select! {
        database = StackDatabase::start(&folder, options.database_url.as_deref()) => database?,
        () = shutdown.cancelled() => return tasks.join().await,
    };
    let broker = tokio::select! {
        broker = StackBroker::start(&options, &folder) => broker,
        () = shutdown.cancelled() => {
            let joined = tasks.join().await;
            return joined.and(database.stop().await);
        }
    };
    let outcome = match broker {
        Ok(broker) => {
            let servers = (&database, &broker);
            let outcome = run((&options, configs), &folder, sockets, tasks, servers).await;
            let stopped = broker.stop().await;
            outcome.and(stopped)
        }
        Err(error) => Err(error),
    };
    let stopped = outcome.and(database.stop().await);
    if stopped.is_ok() {
        note("linkledger has stopped.");
    }
    stopped
}

async fn run(
    (options, configs): (&StackOptions, ServiceConfigs),
    folder: &DataFolder,
    mut sockets: StackSockets,
    mut tasks: Tasks,
    (database, broker): (&StackDatabase, &StackBroker),
) -> anyhow::Result<()> {
    let shutdown = tasks.shutdown();
    let kafka = KafkaConfig {
        brokers: broker.addresses().to_owned(),
        topic: options.kafka_topic.clone(),
        security: options.kafka_security.clone(),
    };
    let clicks = ClicksConfig {
        clicks_topic: options.kafka_clicks_topic.clone(),
        clicks: options.clicks,
    };
    broker.prepare(&kafka, &clicks, database).await?;
    let pool = &database.pool;
    let account = DemoAccount::of_stack(options.credits);
    let key = demo_key(folder, pool, &SystemClock, account).await?;
    let admin_key = admin_key(folder, pool, &SystemClock).await?;
    let settings = services::ServiceSettings {
        configs,
        database_url: database.url.clone(),
        allow_unsafe_postgres: options.allow_unsafe_postgres,
        kafka,
        clicks,
        relay: broker.relay(),
        kafka_fetch_wait_max_ms: broker.fetch_wait_max_ms(),
        base_url: format!("http://{}", sockets.api.local_addr()?),
        short_base_url: format!("http://{}", sockets.short_host.local_addr()?),
        link_price: options.link_price,
        rate_limit: options.rate_limit,
        webhook_keys_file: webhook_keys(folder)?,
    };
    let clock = Arc::new(SystemClock);
    let kafka_port = sockets.kafka.take();
    let started = services::start(&settings, clock, sockets, &mut tasks).await?;
    let kafka_brokers = match kafka_port {
        Some(listener) => {
            let fixed = listener.local_addr()?.to_string();
            let address = broker.addresses().to_owned();
            let serving = fixed_port::serve(listener, address, shutdown.clone());
            tasks.spawn_essential("Kafka port", serving);
            fixed
        }
        None => broker.addresses().to_owned(),
    };
    let keys = (key.reveal(), admin_key.reveal());
    let environment = environment(&settings, &started, keys, kafka_brokers);
    let ready = async {
        started.until_ready_or_shutdown(&shutdown).await;
        if shutdown.is_cancelled() {
            return Ok(());
        }
        let announced = announce(&environment, folder, database);
        if announced.is_err() {
            shutdown.cancel();
        }
        announced
    };
    tokio::select! {
        (joined, announced) = async { tokio::join!(tasks.join(), ready) } => joined.and(announced),
        error = database.died() => {
            shutdown.cancel();
            Err(error)
        }
        error = broker.died() => {
            shutdown.cancel();
            Err(error)
        }
    }
}

/// Writes the file with the environment of clients, and prints the welcome.
fn announce(
    environment: &EnvironmentFile,
    folder: &DataFolder,
    database: &StackDatabase,
) -> anyhow::Result<()> {
    environment.write(folder)?;
    say(&welcome(environment, folder, database)?)
}

/// Collects the addresses and secrets with which other programs reach the stack.
fn environment(
    settings: &services::ServiceSettings,
    started: &RunningServices,
    (api_key, admin_key): (&str, &str),
    kafka_brokers: String,
) -> EnvironmentFile {
    let environment = EnvironmentFile::default()
        // Addresses for people and clients.
        .with("API_URL", &settings.base_url)
        .with("SHORT_URL", &settings.short_base_url)
        // Settings of the services, which show these addresses in their answers.
        .with("BASE_URL", &settings.base_url)
        .with("SHORT_BASE_URL", &settings.short_base_url)
        // Secret for clients.
        .with("API_KEY", api_key)
        // Address and secret for the systems of operators.
        .with("ADMIN_URL", format!("http://{}", started.admin))
        .with("ADMIN_KEY", admin_key)
        // Settings of the services again.
        .with("DATABASE_URL", &settings.database_url)
        .with(
            "KAFKA_FETCH_WAIT_MAX_MS",
            settings.kafka_fetch_wait_max_ms.to_string(),
        )
        .with("CLICKS", settings.clicks.clicks.to_string())
        .with(
            "WEBHOOK_KEYS_FILE",
            settings.webhook_keys_file.display().to_string(),
        )
        // Addresses for operators.
        .with(
            "COMMAND_METRICS_URL",
            RunningServices::metrics_url(started.command_internal),
        )
        .with(
            "PROJECTOR_METRICS_URL",
            RunningServices::metrics_url(started.projector_internal),
        )
        .with(
            "QUERY_METRICS_URL",
            RunningServices::metrics_url(started.query_internal),
        )
        .with(
            "WEBHOOKS_METRICS_URL",
            RunningServices::metrics_url(started.webhooks_internal),
        );
    let clicks_topic = settings.clicks.clicks_topic.to_string();
    let environment = environment.with("KAFKA_CLICKS_TOPIC", clicks_topic);
    let kafka = KafkaConfig {
        brokers: kafka_brokers,
        ..settings.kafka.clone()
    };
    let kafka = kafka.environment().into_iter();
    kafka.fold(environment, |environment, (name, value)| {
        environment.with(name, value)
    })
}

/// Binds a port that an option names.
async fn listen_at(port: u16, option: &str) -> anyhow::Result<TcpListener> {
    let listener = listen(loopback(port)).await;
    listener
        .with_context(|| format!("is linkledger running already? If not, choose another {option}"))
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns the text that people read when the stack is ready: addresses, API key and first commands.
fn welcome(
    environment: &EnvironmentFile,
    folder: &DataFolder,
    database: &StackDatabase,
) -> anyhow::Result<String> {
    let get = |name| environment.get(name).unwrap_or_default();
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("linkledger");
    let data_dir = folder.data_dir_argument();
    let demo = match get("CLICKS") {
        "off" => String::new(),
        _ => format!("See charts of made-up clicks:\n\n{program} demo{data_dir}\n\n"),
    };
    let mut text = String::new();
    if let Some(place) = &database.relocated_to {
        writeln!(
            text,
            "The database is in {}: Postgres runs as another user, who may not read the home of root.",
            place.display()
        )?;
    }
    write!(
        text,
        "
API           {api}
Your links    {api}/console/
Short links   {short}
Operators     {operators}, with ADMIN_KEY of the settings
API key       {key}
Kafka         {kafka}
Settings      {env}

Create a link (repeat this line: the same link is returned, and no credit is charged):

curl -i {api}/v1/links -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \
-H 'Idempotency-Key: {idempotency_key}' -d '{{\"destination_url\":\"https://example.com/\"}}'

List your links from another shell:

{program} links list{data_dir}

{demo}ready",
        api = get("API_URL"),
        short = get("SHORT_URL"),
        operators = get("ADMIN_URL"),
        key = get("API_KEY"),
        kafka = get("KAFKA_BROKERS"),
        env = EnvironmentFile::path(folder).display(),
        idempotency_key =
            linkledger_core::clock::new_uuid(linkledger_core::clock::Clock::now(&SystemClock)),
    )?;
    Ok(text)
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .context("can't write to standard output")
}
