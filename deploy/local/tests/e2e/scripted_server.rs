//! A server that answers by a script, one request on each connection, and stops at the end of the
//! script.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use serde_json::Value;

/// Longest wait for a request.
const DEADLINE: Duration = Duration::from_mins(2);

/// Reaction of the server to a request.
pub(crate) enum Reply {
    Answer {
        status: u16,
        headers: &'static str,
        body: String,
    },
    /// Closes the connection without a response.
    Nothing,
    /// Forwards the request to `host:port`, and returns the response.
    Forward(String),
    /// Forwards the request to `host:port`, and drops the response.
    Lose(String),
    /// Never answers.
    Hold,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::Answer {
            status,
            headers: "",
            body: body.to_string(),
        }
    }

    pub(crate) fn problem(status: u16, headers: &'static str, code: &str) -> Self {
        let problem = serde_json::json!({ "code": code, "detail": "Do this.", "status": status });
        Self::Answer {
            status,
            headers,
            body: problem.to_string(),
        }
    }
}

/// A request as the client sent it.
#[derive(Debug)]
pub(crate) struct Request {
    text: String,
}

impl Request {
    /// Returns method and target.
    pub(crate) fn line(&self) -> &str {
        let line = self.text.lines().next().unwrap();
        line.strip_suffix(" HTTP/1.1").unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (head, _) = self.text.split_once("\r\n\r\n").unwrap();
        head.lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").unwrap().1
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.body()).unwrap()
    }

    /// Reads head and body, by the length that the head states. Returns `None` for a peer that sends no
    /// HTTP.
    fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        loop {
            let mut chunk = [0; 4_096];
            let count = stream.read(&mut chunk).unwrap_or(0);
            bytes.extend_from_slice(&chunk[..count]);
            if !bytes.first().is_some_and(u8::is_ascii_uppercase) {
                return None;
            }
            let text = String::from_utf8(bytes).unwrap();
            assert_ne!(count, 0, "the request broke off: {text}");
            let request = Self { text };
            if let Some((_, body)) = request.text.split_once("\r\n\r\n") {
                let length = request.header("content-length").unwrap_or("0");
                if body.len() == length.parse::<usize>().unwrap() {
                    return Some(request);
                }
            }
            bytes = request.text.into_bytes();
        }
    }

    /// Sends the request to another server, and returns the whole response.
    fn forward(&self, address: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).unwrap();
        let text = self.text.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }
}

/// The server; after the last reply of its script it refuses connections.
pub(crate) struct ScriptedServer {
    pub(crate) url: String,
    requests: Receiver<Request>,
}

impl ScriptedServer {
    pub(crate) fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        thread::spawn(move || {
            let mut held = Vec::new();
            for reply in script {
                let Ok((mut stream, request)) = accept(&listener) else {
                    return;
                };
                let answer = answer(&reply, &request);
                // The test may have dropped the receiver.
                sender.send(request).ok();
                match answer {
                    Some(bytes) => stream.write_all(&bytes).unwrap(),
                    None if matches!(reply, Reply::Hold) => held.push(stream),
                    None => stream.shutdown(Shutdown::Both).unwrap(),
                }
            }
            drop(listener);
            // The held connections end when the client closes them.
            for mut stream in held {
                stream.read_to_end(&mut Vec::new()).ok();
            }
        });
        Self { url, requests }
    }

    /// Waits for the next request.
    pub(crate) fn request(&self) -> Request {
        let request = self.requests.recv_timeout(DEADLINE);
        request.expect("the client sends another request")
    }

    /// Returns the requests of a client that has ended.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }
}

/// Waits for the next request. Skips peers that send no HTTP: a client of another process on this
/// machine reconnects to the address of a server that has ended, and the port may be this one.
fn accept(listener: &TcpListener) -> io::Result<(TcpStream, Request)> {
    loop {
        let (mut stream, _) = listener.accept()?;
        if let Some(request) = Request::read(&mut stream) {
            return Ok((stream, request));
        }
    }
}

fn answer(reply: &Reply, request: &Request) -> Option<Vec<u8>> {
    match reply {
        Reply::Answer {
            status,
            headers,
            body,
        } => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} Scripted\r\nconnection: close\r\ncontent-length: {length}\r\n"
            );
            Some(format!("{head}{headers}\r\n{body}").into_bytes())
        }
        Reply::Forward(address) => Some(request.forward(address)),
        Reply::Lose(address) => {
            drop(request.forward(address));
            None
        }
        Reply::Nothing | Reply::Hold => None,
    }
}
