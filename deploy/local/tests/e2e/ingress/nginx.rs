//! nginx with the files of `deploy/ingress`; the files that an operator adapts are written by the
//! test.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use linkledger_testing::eventually;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{certificates::openssl, services::free_address};

/// Environment variable with the path of nginx. Without the variable the tests of the ingress do
/// nothing, since `cargo test` needs only Rust and Postgres. `.ci/ingress` sets the variable.
const PROGRAM: &str = "LINKLEDGER_TEST_NGINX";
const SITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ingress");

/// Main configuration as of a distribution, with compression of every type of response.
const MAIN: &str = "\
daemon off;
worker_processes 2;
worker_shutdown_timeout 20s;
pid nginx.pid;
error_log error.log info;
events { worker_connections 1024; }
http {
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;
    uwsgi_temp_path tmp; scgi_temp_path tmp;
    gzip on; gzip_types *; gzip_proxied any;
    include linkledger.conf;
    include linkledger_admin.conf;
}
";

/// Limits that one machine cannot reach, in place of `limits.conf`.
pub(crate) const NO_LIMITS: &str = "map $binary_remote_addr $client_network { default $binary_remote_addr; }\n\
    limit_req_zone $client_network zone=api_requests:1m rate=100000r/s;\n\
    limit_req_zone $client_network zone=short_host_requests:1m rate=100000r/s;\n\
    limit_conn_zone $client_network zone=connections:1m;\n";

/// Addresses of the services.
#[derive(Debug, Clone)]
pub(crate) struct Upstreams {
    pub(crate) command_api: Vec<String>,
    pub(crate) query_api: Vec<String>,
    pub(crate) short_host: Vec<String>,
    /// Listeners of the admin API.
    pub(crate) command_admin: Vec<String>,
    pub(crate) query_admin: Vec<String>,
    pub(crate) projector_admin: Vec<String>,
}

impl Upstreams {
    /// Uses the same addresses for every service.
    pub(crate) fn same(addresses: Vec<String>) -> Self {
        Self {
            command_api: addresses.clone(),
            query_api: addresses.clone(),
            short_host: addresses.clone(),
            command_admin: addresses.clone(),
            query_admin: addresses.clone(),
            projector_admin: addresses,
        }
    }
}

/// A running nginx, stopped when the value is dropped.
pub(crate) struct Nginx {
    child: Child,
    pub(crate) folder: TempDir,
    pub(crate) api_url: String,
    pub(crate) short_url: String,
    /// Address of the admin API, without TLS.
    pub(crate) admin_url: String,
    /// Address of the API without TLS, for raw bytes.
    pub(crate) plain: String,
    /// Address of the short host without TLS, for raw bytes.
    pub(crate) plain_short: String,
}

/// Returns the path of nginx, or `None` if the tests run without nginx.
pub(crate) fn program() -> Option<PathBuf> {
    std::env::var_os(PROGRAM).map(PathBuf::from)
}

/// Addresses of nginx, chosen before nginx starts.
pub(crate) struct Addresses {
    pub(crate) api: String,
    pub(crate) short: String,
    admin: String,
    plain: String,
    plain_short: String,
}

impl Addresses {
    pub(crate) fn new() -> Self {
        Self {
            api: free_address(),
            short: free_address(),
            admin: free_address(),
            plain: free_address(),
            plain_short: free_address(),
        }
    }

    pub(crate) fn url(address: &str) -> String {
        format!("https://localhost:{}", port(address))
    }
}

/// Makes a client that trusts these certificates only.
pub(crate) fn client_of<const N: usize>(trusted: [reqwest::Certificate; N]) -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = reqwest::Client::builder().no_proxy();
    let builder = builder.redirect(reqwest::redirect::Policy::none());
    builder.tls_certs_only(trusted).build().unwrap()
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}

impl Nginx {
    pub(crate) async fn start(
        program: &Path,
        addresses: &Addresses,
        upstreams: &Upstreams,
        limits: &str,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        copy(Path::new(SITE), path);
        new_certificate(path, "first");
        fs::write(path.join("nginx.conf"), MAIN).unwrap();
        let site = path.join("linkledger");
        let api_url = Addresses::url(&addresses.api);
        fs::write(
            site.join("addresses.conf"),
            address_file(upstreams, &api_url),
        )
        .unwrap();
        write_hosts(&site, addresses);
        fs::write(site.join("limits.conf"), limits).unwrap();
        for servers in ["linkledger.conf", "linkledger_admin.conf"] {
            log_into(&path.join("access.log"), &path.join(servers));
        }
        let mut command = Command::new(program);
        command
            .arg("-p")
            .arg(path)
            .args(["-c", "nginx.conf", "-e", "error.log"]);
        let child = command.spawn().unwrap();
        let nginx = Self {
            child,
            api_url,
            short_url: Addresses::url(&addresses.short),
            admin_url: format!("http://{}", addresses.admin),
            plain: addresses.plain.clone(),
            plain_short: addresses.plain_short.clone(),
            folder,
        };
        eventually("nginx listens", async || {
            TcpStream::connect(&addresses.plain).ok()
        })
        .await;
        nginx
    }

    /// Makes a client that trusts only the certificates of this nginx.
    pub(crate) fn client(&self) -> reqwest::Client {
        let certificate = fs::read(self.authority()).unwrap();
        client_of([reqwest::Certificate::from_pem(&certificate).unwrap()])
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// Replaces the certificate, as a renewal does.
    pub(crate) fn renew_certificate(&self, name: &str) {
        new_certificate(self.folder.path(), name);
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGHUP).unwrap();
    }

    /// Reads the access log: one JSON object for each request.
    pub(crate) fn access_log(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        // nginx may be writing the last line at this moment.
        let lines = log.lines().filter_map(|it| serde_json::from_str(it).ok());
        lines.collect()
    }

    pub(crate) fn error_log(&self) -> String {
        fs::read_to_string(self.folder.path().join("error.log")).unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGTERM).ok();
        self.child.wait().ok();
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes the listeners of each server.
fn write_hosts(site: &Path, addresses: &Addresses) {
    let listen = |address: &str, more: &str| {
        format!(
            "listen {address} ssl http2; {more}\nserver_name localhost;\n\
             ssl_certificate server.pem;\nssl_certificate_key server.key;\n"
        )
    };
    let plain = format!("listen {};", addresses.plain);
    let plain_short = format!("listen {};", addresses.plain_short);
    let others = [
        format!("listen {} ssl http2 default_server;\n", addresses.api),
        format!("listen {} ssl http2 default_server;\n", addresses.short),
        format!("listen {} default_server;\n", addresses.plain),
    ];
    fs::write(site.join("api_host.conf"), listen(&addresses.api, &plain)).unwrap();
    fs::write(
        site.join("short_host.conf"),
        listen(&addresses.short, &plain_short),
    )
    .unwrap();
    let others_plain = format!("listen {} default_server;\n", addresses.plain_short);
    fs::write(site.join("other_hosts_plain.conf"), others_plain).unwrap();
    fs::write(site.join("other_hosts.conf"), others.concat()).unwrap();
    let admin = format!("listen {};\n", addresses.admin);
    fs::write(site.join("admin_host.conf"), admin).unwrap();
}

/// Replaces the path of the access log in a file.
fn log_into(log: &Path, servers: &Path) {
    let text = fs::read_to_string(servers).unwrap();
    let text = text.replace("/var/log/nginx/linkledger.log", &log.display().to_string());
    fs::write(servers, text).unwrap();
}

/// Returns `addresses.conf` of the repository, with these addresses.
fn address_file(upstreams: &Upstreams, api_url: &str) -> String {
    let group = |name: &str, addresses: &[String]| {
        let servers = addresses
            .iter()
            .map(|it| format!("server {it} fail_timeout=1s; server {it} backup max_fails=0;\n"));
        let servers: String = servers.collect();
        format!(
            "upstream {name} {{\nzone {name} 64k;\n{servers}include linkledger/keepalive.conf;\n}}\n"
        )
    };
    [
        group("command_api", &upstreams.command_api),
        group("query_api", &upstreams.query_api),
        group("short_host", &upstreams.short_host),
        group("command_admin", &upstreams.command_admin),
        group("query_admin", &upstreams.query_admin),
        group("projector_admin", &upstreams.projector_admin),
        format!("map \"\" $api_base_url {{ default {api_url}; }}\n"),
    ]
    .concat()
}

/// Makes `server.pem` and `server.key`, signed by `authority.pem`, which is made first if missing.
fn new_certificate(folder: &Path, name: &str) {
    if !folder.join("authority.pem").exists() {
        let authority = ["-keyout", "authority.key", "-out", "authority.pem"];
        openssl(
            folder,
            &[&authority[..], &["-subj", "/CN=authority"]].concat(),
        );
    }
    let subject = format!("/CN={name}");
    let arguments = [
        "-keyout",
        "server.key",
        "-out",
        "server.pem",
        "-subj",
        &subject,
    ];
    let signer = ["-CA", "authority.pem", "-CAkey", "authority.key"];
    let names = ["-addext", "subjectAltName=DNS:localhost"];
    let end = ["-addext", "basicConstraints=critical,CA:FALSE"];
    openssl(folder, &[&arguments[..], &signer, &names, &end].concat());
}
