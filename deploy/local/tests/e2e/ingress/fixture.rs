//! nginx with a stub in place of each service.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{
    nginx::{self, Addresses, Nginx, Upstreams},
    stub::{Behaviour, Stub},
};

/// Longest wait of a test.
const DEADLINE: Duration = Duration::from_mins(5);

pub(crate) struct Fixture {
    pub(crate) nginx: Nginx,
    command_api: Stub,
    query_api: Stub,
    short_host: Stub,
    command_admin: Stub,
    query_admin: Stub,
    projector_admin: Stub,
}

impl Fixture {
    pub(crate) async fn new(behaviour: Behaviour, limits: &str) -> Option<Self> {
        let program = nginx::program()?;
        let command_api = Stub::start(behaviour).await;
        let query_api = Stub::start(behaviour).await;
        let short_host = Stub::start(behaviour).await;
        let command_admin = Stub::start(behaviour).await;
        let query_admin = Stub::start(behaviour).await;
        let projector_admin = Stub::start(behaviour).await;
        let upstreams = Upstreams {
            command_api: vec![command_api.address.clone()],
            query_api: vec![query_api.address.clone()],
            short_host: vec![short_host.address.clone()],
            command_admin: vec![command_admin.address.clone()],
            query_admin: vec![query_admin.address.clone()],
            projector_admin: vec![projector_admin.address.clone()],
        };
        let nginx = Nginx::start(&program, &Addresses::new(), &upstreams, limits).await;
        Some(Self {
            nginx,
            command_api,
            query_api,
            short_host,
            command_admin,
            query_admin,
            projector_admin,
        })
    }

    /// Sends the bytes, and returns all bytes of the response until the connection ends.
    pub(crate) async fn exchange(&self, sent: &str) -> String {
        exchange_with(&self.nginx.plain, sent).await
    }

    /// Sends bytes to the short host without TLS, and returns the answer.
    pub(crate) async fn exchange_with_short_host(&self, sent: &str) -> String {
        exchange_with(&self.nginx.plain_short, sent).await
    }

    pub(crate) fn reached(&self) -> [Vec<String>; 3] {
        [&self.command_api, &self.query_api, &self.short_host].map(Stub::take)
    }

    /// Returns the requests to the admin API of command-api, of query-api and of projector since the last call.
    pub(crate) fn reached_admin(&self) -> [Vec<String>; 3] {
        [
            &self.command_admin,
            &self.query_admin,
            &self.projector_admin,
        ]
        .map(Stub::take)
    }
}

async fn exchange_with(address: &str, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await;
    read.expect("the connection ends").ok();
    String::from_utf8(bytes).unwrap()
}
