//! The service as a process with very many connections.

use std::{net::SocketAddr, process::Stdio};

use linkledger_service::lifecycle::set_process_limits;
use linkledger_testing::{TestDatabase, eventually, free_address};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStderr, Command},
};

const REQUEST: &[u8] = b"GET /v1/links HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct Process {
    child: Child,
    api: SocketAddr,
    log: Lines<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts the service after the shell command `limit`.
    async fn start(database: &TestDatabase, limit: &str) -> Self {
        let api = free_address().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &format!("{limit} exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_query-api"))
            .args(["serve", "--api-listen", &api.to_string()])
            .args(["--short-listen", "127.0.0.1:0"])
            .args(["--internal-listen", "127.0.0.1:0"])
            .env("DATABASE_URL", database.url())
            .env("ALLOW_UNSAFE_POSTGRES", "true")
            .env("CLICKS", "off")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        eventually("it listens", async || TcpStream::connect(api).await.ok()).await;
        Self { child, api, log }
    }

    /// Waits until a line of the log contains the text.
    async fn until_logged(&mut self, text: &str) {
        loop {
            let line = self.log.next_line().await.unwrap();
            if line.expect("the log goes on").contains(text) {
                return;
            }
        }
    }

    /// Sends SIGTERM. Returns the end of the log if the exit code is not 0.
    async fn end(mut self) -> Result<(), String> {
        let pid = self.child.id().unwrap().to_string();
        let killed = Command::new("kill").arg(pid).status().await.unwrap();
        assert!(killed.success());
        let mut last = String::new();
        while let Some(line) = self.log.next_line().await.unwrap() {
            last = line;
        }
        let status = self.child.wait().await.unwrap();
        if status.success() { Ok(()) } else { Err(last) }
    }
}

async fn is_answered(stream: &mut TcpStream) {
    stream.write_all(REQUEST).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 401");
}

/// The process raises its limit of open files. The test fails with a message if the system allows too
/// few open files.
#[tokio::test]
async fn ten_thousand_idle_connections_are_served() {
    const COUNT: usize = 10_000;
    set_process_limits();
    let database = TestDatabase::create().await;
    // Many systems set a soft limit of 1,024.
    let service = Process::start(&database, "ulimit -Sn 1024;").await;
    let mut idle = Vec::with_capacity(COUNT);
    for number in 0..COUNT {
        let connected = TcpStream::connect(service.api).await;
        idle.push(connected.unwrap_or_else(|error| {
            panic!("connection {number}: {error}; the hard limit of open files (ulimit -Hn) must be above 10,500")
        }));
    }
    for stream in [0, COUNT / 2, COUNT - 1] {
        is_answered(&mut idle[stream]).await;
    }
    is_answered(&mut TcpStream::connect(service.api).await.unwrap()).await;
    service.end().await.unwrap();
    for mut stream in idle {
        // The three answered connections still have bytes to read.
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    }
}

#[tokio::test]
async fn process_recovers_from_file_exhaustion() {
    let database = TestDatabase::create().await;
    let mut service = Process::start(&database, "ulimit -n 60;").await;
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(TcpStream::connect(service.api).await.unwrap());
    }
    service.until_logged("cannot accept connections").await;
    // The open connections are served all the time.
    is_answered(&mut clients[0]).await;
    drop(clients);
    is_answered(&mut TcpStream::connect(service.api).await.unwrap()).await;
    service.end().await.unwrap();
}
