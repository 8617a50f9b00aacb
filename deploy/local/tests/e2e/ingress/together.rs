//! nginx with the real services as processes: contract tests, the admin API, rolling restarts, kills.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, atomic::Ordering},
    time::{Duration, Instant},
};

use linkledger_testing::eventually_within;
use reqwest::Method;

use super::{deployment::Deployment, load::Load};

/// The distinct `Homepage` fields of the packages of a Linux distribution, including fields that
/// are not valid destinations.
const HOMEPAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/homepages.txt");
/// Number of imports that run at once, each for an account of its own.
const IMPORTS: usize = 8;
/// Concurrency of each import.
const CONCURRENCY: &str = "1";
/// Longest duration of all imports, with unoptimised programs and restarts of processes.
const IMPORTED_WITHIN: Duration = Duration::from_mins(30);

/// A process of `linkledger import`.
struct Import {
    child: Child,
    output: PathBuf,
    lines: usize,
}

impl Import {
    fn start(deployment: &Deployment, nth: usize) -> Self {
        let folder = deployment.nginx.folder.path();
        let output = folder.join(format!("import-{nth}.out"));
        let part = folder.join(format!("homepages-{nth}.txt"));
        let text = fs::read_to_string(HOMEPAGES).unwrap();
        let lines: Vec<&str> = text.lines().skip(nth).step_by(IMPORTS).collect();
        fs::write(&part, lines.join("\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_linkledger"));
        command
            .arg("import")
            .arg(part)
            .args(["--allow-refused", "--concurrency", CONCURRENCY]);
        command.args(["--api-url", &deployment.nginx.api_url]);
        command.env("LINKLEDGER_API_KEY", &deployment.api_keys[nth]);
        command.env("SSL_CERT_FILE", deployment.nginx.authority());
        command
            .stdout(fs::File::create(&output).unwrap())
            .stderr(Stdio::null());
        Self {
            child: command.spawn().unwrap(),
            output,
            lines: lines.len(),
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Returns the number of created links; every link must be created for the first time.
    fn created(&mut self) -> usize {
        assert!(self.child.wait().unwrap().success());
        let text = fs::read_to_string(&self.output).unwrap();
        let count = |what: &str| -> usize {
            let (before, _) = text.split_once(what).expect(&text);
            let number = before.rsplit([' ', '\n']).find(|it| !it.is_empty());
            number.unwrap().replace(',', "").parse().expect(&text)
        };
        assert_eq!(count(" created before"), 0, "{text}");
        assert_eq!(
            count(" created, ") + count(" refused"),
            self.lines,
            "{text}"
        );
        count(" created, ")
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Timeout of a request whose database or account does not respond, in seconds.
const GIVEN_UP_AFTER_S: f64 = 1.0;

/// Returns the failures that a restart may have caused: wrong responses, and clients without a
/// response. Leaves out the 503 of a service whose database timed out: the host is busy, and the
/// import retries.
fn failed(deployment: &Deployment) -> Vec<String> {
    let log = deployment.nginx.access_log().into_iter();
    let failed = log.filter(|it| {
        let text = |name: &str| it[name].as_str().unwrap().to_owned();
        let status: u16 = text("status").parse().unwrap();
        let is_given_up = text("upstream_status") == "503"
            && text("duration_s").parse::<f64>().unwrap() >= GIVEN_UP_AFTER_S;
        status == 499 || (status >= 500 && !is_given_up)
    });
    failed.map(|it| it.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rolling_restarts_fail_no_request() {
    let Some(mut deployment) = Deployment::start(IMPORTS + 1).await else {
        return;
    };
    let mut processes = std::mem::take(&mut deployment.processes);
    let load = Load::new(&deployment.nginx, &deployment.api_keys[IMPORTS]);
    let mut imports: Vec<Import> = (0..IMPORTS)
        .map(|nth| Import::start(&deployment, nth))
        .collect();
    let begun = Instant::now();
    let restarts = async {
        load.goes_on().await;
        // Restarts one process after the other, until the imports have ended.
        loop {
            for process in &mut processes {
                process.drain().await;
                load.goes_on().await;
                process.start().await;
                load.goes_on().await;
            }
            if imports.iter_mut().all(Import::has_ended) {
                break load.end();
            }
            assert!(begun.elapsed() < IMPORTED_WITHIN);
        }
    };
    tokio::join!(load.run(), restarts);
    assert_eq!(load.failures(), []);
    assert_eq!(failed(&deployment), [] as [String; 0]);
    let created: usize = imports.iter_mut().map(Import::created).sum();
    let created = created + load.created.load(Ordering::Relaxed);
    deployment
        .assert_links(i64::try_from(created).unwrap())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_fails_only_changes_in_flight() {
    let Some(mut deployment) = Deployment::start(1).await else {
        return;
    };
    let mut processes = std::mem::take(&mut deployment.processes);
    let load = Load::new(&deployment.nginx, &deployment.api_keys[0]);
    let deaths = async {
        load.goes_on().await;
        // One process of each service, not all with the same index.
        for nth in [0, 4, 2] {
            processes[nth].kill();
            load.goes_on().await;
            processes[nth].start().await;
            load.goes_on().await;
        }
        load.end();
    };
    tokio::join!(load.run(), deaths);
    let failures = load.failures();
    let unknown = |(method, text): &(Method, String)| {
        *method == Method::PATCH && text.starts_with("504") && text.contains("may_have_succeeded")
    };
    assert!(failures.iter().all(unknown), "{failures:#?}");
    assert!(failures.len() <= super::load::CLIENTS, "{failures:#?}");
    let created = load.created.load(Ordering::Relaxed);
    deployment
        .assert_links(i64::try_from(created).unwrap())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_api_has_one_address_and_no_public_host() {
    let Some(deployment) = Deployment::start(1).await else {
        return;
    };
    let nginx = &deployment.nginx;
    let key = deployment.admin_key().await;
    let client = nginx.client();
    let status = async |method: &Method, url: &str, host: Option<&str>| {
        let account = format!("{url}/admin/v1/accounts/by-external-id/customers%2F4711");
        let mut request = client.request(method.clone(), account);
        request = request.bearer_auth(key.reveal());
        if *method == Method::PUT {
            let body = r#"{"name": "Acme"}"#;
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        if let Some(host) = host {
            request = request.header("host", host);
        }
        request.send().await.unwrap().status()
    };
    assert_eq!(status(&Method::PUT, &nginx.admin_url, None).await, 201);
    assert_eq!(status(&Method::GET, &nginx.admin_url, None).await, 200);
    let followers = client.get(format!("{}/admin/v1/status", nginx.admin_url));
    let answer = followers.bearer_auth(key.reveal()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    for method in [Method::PUT, Method::GET] {
        assert_eq!(status(&method, &nginx.api_url, None).await, 404, "{method}");
        let by_public_name = status(&method, &nginx.admin_url, Some("api.example.com")).await;
        assert_eq!(by_public_name, 421, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ingress_passes_the_contract_tests() {
    let Some(deployment) = Deployment::start(1).await else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/contract");
    let mut contract = Command::new(script);
    let authority = deployment.nginx.authority();
    let admin_key = deployment.admin_key().await;
    contract
        .arg("--running")
        .env("API_URL", &deployment.nginx.api_url)
        .env("SHORT_URL", &deployment.nginx.short_url)
        .env("API_KEY", &deployment.api_keys[0])
        .env("ADMIN_URL", &deployment.nginx.admin_url)
        .env("ADMIN_KEY", admin_key.reveal())
        .env("SSL_CERT_FILE", &authority)
        .env("REQUESTS_CA_BUNDLE", &authority);
    let contract = Mutex::new(contract.spawn().unwrap());
    let deadline = Duration::from_mins(30);
    let ended = eventually_within(deadline, "the suite ends", async || {
        contract.lock().unwrap().try_wait().unwrap()
    });
    assert!(ended.await.success());
    assert_eq!(failed_but_behind(&deployment), [] as [String; 0]);
}

/// Returns the failures other than a documented 503 of a read while the read tables lag.
fn failed_but_behind(deployment: &Deployment) -> Vec<String> {
    let failed = failed(deployment).into_iter();
    failed
        .filter(|it| !it.contains("\"status\":\"503\""))
        .collect()
}
