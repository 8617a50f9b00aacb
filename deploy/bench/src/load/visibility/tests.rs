//! The meter against a server that shows a link only in a list of a certain number.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use linkledger_testing::in_background;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::Instant,
};

use super::{FollowedCreates, POLL_INTERVAL, Requests};

/// A link is in the list that is asked for at this time, and not before.
const SHOWN_IN_LIST: u32 = 6;

/// Number of lists that were requested for each link.
type Looks = Arc<Mutex<HashMap<String, u32>>>;

/// Answers requests of one line each: `create <name>` and `list <name>`.
async fn serve(mut stream: TcpStream, looks: Looks) {
    let mut request = vec![0; 64];
    loop {
        let length = stream.read(&mut request).await.unwrap();
        if length == 0 {
            return;
        }
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        let (verb, name) = request.split_once(' ').unwrap();
        let (status, body) = if verb == "create" {
            (201, format!(r#"{{"id":"{name}"}}"#))
        } else {
            let mut looks = looks.lock().unwrap();
            let look = looks.entry(name.to_owned()).or_default();
            *look += 1;
            let listed = if *look < SHOWN_IN_LIST {
                "another"
            } else {
                name
            };
            (200, format!(r#"{{"data":[{{"id":"{listed}"}}]}}"#))
        };
        let answer = format!(
            "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn listed_link_is_visible_and_not_polled_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let looks = Looks::default();
    let seen = Arc::clone(&looks);
    let server = in_background(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            drop(in_background(serve(stream, Arc::clone(&seen))));
        }
    });
    let request = |status, verb: &'static str| {
        Requests::new(status, move |number, buffer| {
            buffer.extend_from_slice(format!("{verb} lnk_{number:06}").as_bytes());
        })
    };
    let followed = FollowedCreates {
        address,
        creates: request(201, "create"),
        lists: request(200, "list"),
    };
    let begun = Instant::now();
    let seen = followed.follow(200.0, Duration::from_millis(200)).await;
    let (seen, took) = (seen.unwrap(), begun.elapsed());
    server.abort();

    let looks = looks.lock().unwrap();
    let links = looks.len() as u64;
    assert!(links > 10, "{links}");
    assert!(
        looks.values().all(|look| *look == SHOWN_IN_LIST),
        "{looks:?}"
    );
    assert_eq!(seen.waits.answers, links);
    assert_eq!(seen.lists.answers, links * u64::from(SHOWN_IN_LIST));
    // Between the first and the last look lie these intervals, however fast the machine is.
    let least_ms = (POLL_INTERVAL * (SHOWN_IN_LIST - 1)).as_secs_f64() * 1_000.0;
    let shortest = seen.waits.latency_ms(0.0);
    assert!(shortest >= least_ms * 0.99, "{shortest}");
    let longest = seen.waits.latency_ms(1.0);
    assert!(longest <= took.as_secs_f64() * 1_000.0 * 1.01, "{longest}");
}
