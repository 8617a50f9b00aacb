//! Two processes of each service behind nginx, each with the rights of its role only.

use std::{path::PathBuf, process::Command};

use linkledger_command_api::admin::admin_key::{self, IssueAdminKey};
use linkledger_core::{
    api_key::{AdminKey, AdminScope, Scope},
    clock::SystemClock,
    shard::Shard,
};
use linkledger_testing as testing;
use linkledger_testing::{
    TestBroker, TestDatabase, eventually, record,
    stream::{Following, Stream},
};
use tokio::net::TcpStream;

use super::nginx::{self, Addresses, NO_LIMITS, Nginx, Upstreams};
use crate::services::{ROLES, Service, free_address, program};

/// Number of processes of each service.
const REPLICAS: usize = 2;
pub(crate) const CREDITS: i64 = 1_000_000;

/// Master keys of the secrets of webhooks; no process sends any.
const MASTER_KEYS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../command-api/tests/api/webhooks/master_keys"
);

pub(crate) struct Deployment {
    /// command-api, projector, query-api, and then the second process of each.
    pub(crate) processes: Vec<Process>,
    pub(crate) nginx: Nginx,
    pub(crate) database: TestDatabase,
    /// The stream, followed from its beginning, since the broker keeps only the newest records.
    stream: Following,
    _broker: TestBroker,
    /// One API key for each account.
    pub(crate) api_keys: Vec<String>,
}

impl Deployment {
    /// Starts nginx and the services, with accounts that are each in a shard of their own. Returns
    /// `None` if the tests run without nginx.
    pub(crate) async fn start(accounts: usize) -> Option<Self> {
        let nginx = nginx::program()?;
        let database = TestDatabase::create().await;
        let roles = sqlx::raw_sql(ROLES).execute(database.pool());
        roles.await.unwrap();
        let mut api_keys = Vec::new();
        for shard in Shard::all().take(accounts) {
            let account_id = testing::account_of(database.pool(), shard, CREDITS).await;
            let key = testing::api_key(database.pool(), account_id, &Scope::ALL).await;
            record::secret(record::Secret::ApiKey, key.reveal());
            api_keys.push(key.reveal().to_owned());
        }
        let broker = TestBroker::start().await;
        let addresses = Addresses::new();
        let plan = Plan {
            database: &database,
            broker: &broker,
            base_url: Addresses::url(&addresses.api),
            short_base_url: Addresses::url(&addresses.short),
        };
        let listeners = [(); REPLICAS].map(|()| [(); 6].map(|()| free_address()));
        let processes = listeners.iter().enumerate();
        let processes = processes.flat_map(|(nth, listeners)| plan.processes(nth, listeners));
        let mut processes: Vec<Process> = processes.collect();
        for process in &mut processes {
            process.start().await;
        }
        let nth = |nth: usize| listeners.iter().map(|it| it[nth].clone()).collect();
        let upstreams = Upstreams {
            command_api: nth(0),
            query_api: nth(1),
            short_host: nth(2),
            command_admin: nth(3),
            query_admin: nth(4),
            projector_admin: nth(5),
        };
        Some(Self {
            processes,
            nginx: Nginx::start(&nginx, &addresses, &upstreams, NO_LIMITS).await,
            database,
            stream: Stream::follow(&broker.config()),
            _broker: broker,
            api_keys,
        })
    }

    /// Issues a key of the admin API with all scopes.
    pub(crate) async fn admin_key(&self) -> AdminKey {
        let secret = AdminKey::generate();
        record::secret(record::Secret::ApiKey, secret.reveal());
        let wanted = IssueAdminKey {
            name: "test".to_owned(),
            scopes: AdminScope::ALL.to_vec(),
            expires_at: None,
        };
        let issued = admin_key::issue(self.database.pool(), &SystemClock, &wanted, &secret, "test");
        issued.await.unwrap();
        secret
    }

    /// Asserts that log, accounts and topic have exactly this number of links.
    pub(crate) async fn assert_links(self, links: i64) {
        let pool = self.database.pool();
        let count = async |what: &str| -> i64 {
            let query = sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(what.to_owned()));
            query.fetch_one(pool).await.unwrap()
        };
        let created = "FROM event_store.events WHERE type = 'LinkCreated'";
        let charged = "FROM event_store.events WHERE type = 'CreditsCharged'";
        let deleted = "SELECT count(*) FROM event_store.events WHERE type = 'LinkDeleted'";
        let left = links - count(deleted).await;
        let keys = format!("SELECT count(DISTINCT idempotency_key) {created}");
        assert_eq!(count(&format!("SELECT count(*) {created}")).await, links);
        assert_eq!(count(&keys).await, links);
        assert_eq!(count(&format!("SELECT count(*) {charged}")).await, links);
        let balances = count("SELECT sum(balance)::bigint FROM event_store.accounts").await;
        let accounts = i64::try_from(self.api_keys.len()).unwrap();
        assert_eq!(balances, CREDITS * accounts - links);
        eventually("all of the log is in the read tables", async || {
            let shown = count("SELECT count(*) FROM read_model.links").await;
            (shown == left).then_some(())
        })
        .await;
        eventually("all of the log is published", async || {
            let waiting = "SELECT count(*) FROM event_store.log_shards
                           JOIN event_store.relay_cursors USING (shard) WHERE position < head";
            (count(waiting).await == 0).then_some(())
        })
        .await;
        self.stream.to_the_end().await.assert_equals_log(pool).await;
    }
}

/// Settings that all processes share.
struct Plan<'a> {
    database: &'a TestDatabase,
    broker: &'a TestBroker,
    base_url: String,
    short_base_url: String,
}

impl Plan<'_> {
    fn processes(&self, nth: usize, listeners: &[String; 6]) -> [Process; 3] {
        let [
            api,
            reads,
            short,
            command_admin,
            query_admin,
            projector_admin,
        ] = listeners;
        let relay = self.url_of("linkledger_relay");
        let serve = ["serve", "--api-listen", api].map(str::to_owned);
        let mut command_api = self.process("command-api", &serve);
        let name = ("INSTANCE_ID", format!("command-api-{nth}"));
        command_api.environment.push(name);
        command_api.environment.push(("RELAY_DATABASE_URL", relay));
        let keys = ("WEBHOOK_KEYS_FILE", MASTER_KEYS.to_owned());
        command_api.environment.push(keys);
        let admin = |address: &String| ("ADMIN_LISTEN", address.clone());
        command_api.environment.push(admin(command_admin));
        let mut projector = self.process("projector", &["run".to_owned()]);
        projector.environment.push(admin(projector_admin));
        let serve = ["serve", "--api-listen", reads, "--short-listen", short].map(str::to_owned);
        let mut query_api = self.process("query-api", &serve);
        query_api.environment.push(admin(query_admin));
        [command_api, projector, query_api]
    }

    fn url_of(&self, role: &str) -> String {
        format!("{}?options[role]={role}", self.database.url())
    }

    fn process(&self, name: &'static str, arguments: &[String]) -> Process {
        let internal = free_address();
        let role = format!("linkledger_{}", name.replace('-', "_"));
        let environment = [
            ("DATABASE_URL", self.url_of(&role)),
            ("BASE_URL", self.base_url.clone()),
            ("SHORT_BASE_URL", self.short_base_url.clone()),
            ("RATE_LIMIT", "0".to_owned()),
            // The Postgres of the tests has fsync off.
            ("ALLOW_UNSAFE_POSTGRES", "true".to_owned()),
        ];
        let more = ["--internal-listen".to_owned(), internal.clone()];
        let kafka = self.broker.config().environment().into_iter();
        Process {
            name,
            program: program(name),
            arguments: [arguments, &more].concat(),
            environment: environment.into_iter().chain(kafka).collect(),
            internal,
            running: None,
        }
    }
}

/// A process of a service, which can be stopped and started again with the same settings.
pub(crate) struct Process {
    pub(crate) name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    internal: String,
    running: Option<Service>,
}

impl Process {
    /// Starts the process, and waits until the process is ready.
    pub(crate) async fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.running = Some(Service::start(command));
        let client = nginx::client_of([]);
        let url = format!("http://{}/readyz", self.internal);
        eventually("the process is ready", async || {
            TcpStream::connect(&self.internal).await.ok()?;
            let answer = client.get(&url).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
    }

    /// Stops the process with SIGTERM: accepted requests are finished.
    pub(crate) async fn drain(&mut self) {
        let running = self.running.take().expect("it runs");
        assert_eq!(running.terminate().await, Some(0), "{}", self.name);
    }

    /// Kills the process with SIGKILL: accepted requests are not finished.
    pub(crate) fn kill(&mut self) {
        drop(self.running.take().expect("it runs"));
    }
}
