//! A stub in place of a service: records the requests, and answers or closes the connection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use linkledger_testing::in_background;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// Response that is long enough to be compressed.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\netag: \"1\"\r\n\
                        content-length: 49\r\n\r\n{\"destination_url\":\"https://example.com/1234567\"}";

/// Length of the longest header that a service sends: the address of the next page of a filtered list.
pub(crate) const LONG_HEADER_BYTES: usize = 7_000;

/// Longer than the ingress waits for a read that does not ask to wait.
const LATE: Duration = Duration::from_secs(6);

/// Reaction of the stub to a complete request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Answers,
    /// Answers with a header of [`LONG_HEADER_BYTES`].
    AnswersLongHeader,
    /// Answers after [`LATE`].
    AnswersLate,
    BreaksOff,
}

pub(crate) struct Stub {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    pub(crate) async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&requests);
        in_background(async move {
            while let Ok((stream, _)) = listener.accept().await {
                in_background(serve(stream, behaviour, Arc::clone(&noted)));
            }
        });
        Self { address, requests }
    }

    /// Returns the requests since the last call, each with its body.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

async fn serve(mut stream: TcpStream, behaviour: Behaviour, noted: Arc<Mutex<Vec<String>>>) {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.is_ok_and(|it| it > 0) {
        while let Some(length) = length_of_first(&bytes) {
            let request: Vec<u8> = bytes.drain(..length).collect();
            let request = String::from_utf8_lossy(&request).into_owned();
            noted.lock().unwrap().push(request);
            if behaviour == Behaviour::BreaksOff {
                return;
            }
            if behaviour == Behaviour::AnswersLate {
                sleep(LATE).await;
            }
            stream.write_all(&answer(behaviour)).await.ok();
        }
    }
}

fn answer(behaviour: Behaviour) -> Vec<u8> {
    match behaviour {
        Behaviour::AnswersLongHeader => {
            let header = "x".repeat(LONG_HEADER_BYTES);
            format!("HTTP/1.1 200 OK\r\nlink: {header}\r\ncontent-length: 0\r\n\r\n").into_bytes()
        }
        Behaviour::Answers | Behaviour::AnswersLate | Behaviour::BreaksOff => ANSWER.to_vec(),
    }
}

/// Returns the length of the first request, if the request is complete.
fn length_of_first(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|it| it.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |it| it.parse().unwrap());
    (bytes.len() >= end + length).then_some(end + length)
}
