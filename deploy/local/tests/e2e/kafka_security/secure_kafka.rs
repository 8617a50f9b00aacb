//! An Apache Kafka that demands TLS, a password, and a right for each operation.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use linkledger_servers::apache_kafka::{ApacheKafka, ApacheKafkaOptions};
use linkledger_service::kafka_config::{KafkaConfig, KafkaSecurity, SecurityProtocol};
use tokio::sync::OnceCell;

use crate::certificates::openssl;

/// User with all rights.
pub(crate) const ADMIN: &str = "admin";
/// Users of the services: of the relay and of the projector.
pub(crate) const USERS: [&str; 2] = ["relay", "projector"];

/// User that creates the topic and reads the stream.
pub(crate) const OPERATOR: &str = "operator";
/// Users that read events, and clicks.
pub(crate) const CONSUMER: &str = "analytics";
pub(crate) const CLICKS_CONSUMER: &str = "marketing";
/// User of query-api, which records clicks.
pub(crate) const RECORDER: &str = "query-api";

const ACLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kafka/acls");

static SHARED: OnceCell<SecureKafka> = OnceCell::const_new();

/// The broker of all tests; each test has a topic of its own.
pub(crate) struct SecureKafka {
    kafka: ApacheKafka,
    authority: String,
}

impl SecureKafka {
    pub(crate) async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = new_authority(folder.path(), "authority");
        let certificate = broker_certificate(folder.path());
        let scram = |user: &str| {
            let password = password(user);
            format!("SCRAM-SHA-512=[name={user},password={password}]")
        };
        let others = [ADMIN, OPERATOR, CONSUMER, CLICKS_CONSUMER, RECORDER];
        let users = others.into_iter().chain(USERS);
        let kafka = ApacheKafka::start(ApacheKafkaOptions {
            data_dir: None,
            settings: settings(&authority, &certificate),
            format_arguments: users
                .flat_map(|user| ["--add-scram".to_owned(), scram(user)])
                .collect(),
        });
        Self {
            kafka: kafka.await.unwrap(),
            authority,
        }
    }

    /// Returns the Kafka settings of a user, with the user's files in `folder`.
    pub(crate) fn config(&self, user: &str, topic: &str, folder: &Path) -> KafkaConfig {
        // A running client may read the files again at any time: they are written once.
        let written = |name: String, content: &str| {
            let file = folder.join(name);
            if !file.exists() {
                fs::write(&file, content).unwrap();
            }
            file
        };
        let ca_file = written("authority.pem".to_owned(), &self.authority);
        let password_file = written(format!("{user}.password"), &(password(user) + "\n"));
        KafkaConfig {
            brokers: self.kafka.bootstrap_servers(),
            topic: topic.parse().unwrap(),
            security: KafkaSecurity {
                protocol: SecurityProtocol::SaslSsl,
                ca_file: Some(ca_file),
                username: Some(user.to_owned()),
                password_file: Some(password_file),
                ..KafkaSecurity::default()
            },
        }
    }

    /// Gives the users the rights of `deploy/kafka/acls`, on topics of events and of clicks.
    pub(crate) fn grant_rights(&self, [topic, clicks]: [&str; 2], folder: &Path) {
        let mut script = Command::new(ACLS);
        script
            .env("KAFKA_ACLS", acl_command().join(" "))
            .env("KAFKA_BROKERS", self.kafka.bootstrap_servers())
            .env("KAFKA_TOPIC", topic)
            .env("KAFKA_CLICKS_TOPIC", clicks)
            .env("CONSUMERS", CONSUMER)
            .env("CLICKS_CONSUMERS", CLICKS_CONSUMER)
            .arg(self.admin_properties(folder));
        let output = script.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Revokes a right of a user on a topic.
    pub(crate) fn revoke(&self, user: &str, operation: &str, topic: &str, folder: &Path) {
        let [program, arguments @ ..] = acl_command();
        let mut tool = Command::new(program);
        tool.args(arguments)
            .args(["--bootstrap-server", &self.kafka.bootstrap_servers()])
            .arg("--command-config")
            .arg(self.admin_properties(folder))
            .args(["--remove", "--force", "--allow-principal"])
            .arg(format!("User:{user}"))
            .args(["--operation", operation, "--topic", topic]);
        let output = tool.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn admin_properties(&self, folder: &Path) -> PathBuf {
        let file = folder.join("admin.properties");
        fs::write(&file, admin_properties(&self.authority)).unwrap();
        file
    }
}

/// Returns the command line that `kafka-acls.sh` would run.
fn acl_command() -> [String; 6] {
    let class = "org.apache.kafka.tools.AclCommand".to_owned();
    let options = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp"].map(str::to_owned);
    let [java, memory, compiler, class_path_option] = options;
    [
        java,
        memory,
        compiler,
        class_path_option,
        class_path(),
        class,
    ]
}

/// Makes a self-signed certificate: `<name>.pem` and its key.
pub(crate) fn new_authority(folder: &Path, name: &str) -> String {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    let arguments = ["-keyout", &key, "-out", &certificate, "-subj", "/CN=test"];
    openssl(folder, &arguments);
    fs::read_to_string(folder.join(certificate)).unwrap()
}

/// Makes key and certificate of the broker, signed by the authority in the folder.
fn broker_certificate(folder: &Path) -> [String; 2] {
    let mut arguments = vec!["-keyout", "broker.key", "-out", "broker.pem"];
    arguments.extend(["-CA", "authority.pem", "-CAkey", "authority.key"]);
    arguments.extend(["-subj", "/CN=broker", "-addext"]);
    arguments.extend(["subjectAltName=IP:127.0.0.1", "-addext"]);
    arguments.push("basicConstraints=critical,CA:FALSE");
    openssl(folder, &arguments);
    ["broker.key", "broker.pem"].map(|name| fs::read_to_string(folder.join(name)).unwrap())
}

fn settings(authority: &str, [key, certificate]: &[String; 2]) -> Vec<(String, String)> {
    // Java properties need the value on one line.
    let one_line = |pem: &str| pem.replace('\n', "\\n");
    let settings = [
        (
            "listener.security.protocol.map",
            "CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT".to_owned(),
        ),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512".to_owned()),
        (
            "sasl.mechanism.inter.broker.protocol",
            "SCRAM-SHA-512".to_owned(),
        ),
        (
            "listener.name.client.scram-sha-512.sasl.jaas.config",
            login(),
        ),
        ("ssl.keystore.type", "PEM".to_owned()),
        ("ssl.keystore.key", one_line(key)),
        ("ssl.keystore.certificate.chain", one_line(certificate)),
        ("ssl.truststore.type", "PEM".to_owned()),
        ("ssl.truststore.certificates", one_line(authority)),
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
        ),
        // The controller's listener is for this broker alone, and has no authentication.
        ("super.users", "User:admin;User:ANONYMOUS".to_owned()),
    ];
    settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn admin_properties(authority: &str) -> String {
    format!(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={}\n\
         ssl.truststore.type=PEM\nssl.truststore.certificates={}\n",
        login(),
        authority.replace('\n', "\\n")
    )
}

/// Returns the login of the administrator, in the format of Java clients.
fn login() -> String {
    let password = password(ADMIN);
    format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required \
         username=\"{ADMIN}\" password=\"{password}\";"
    )
}

fn password(user: &str) -> String {
    format!("password of {user}").replace(' ', "-")
}

fn class_path() -> String {
    let fetch = concat!(env!("CARGO_MANIFEST_DIR"), "/../kafka/fetch");
    let output = Command::new("sh").arg(fetch).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
