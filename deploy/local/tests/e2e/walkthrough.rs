use std::process::Command;

use linkledger_testing::eventually;
use serde_json::{Value, json};

use crate::process::{Stack, data_folder};

/// Runs a command line, and returns status line, headers and body that `curl -i` prints.
fn pasted(line: &str) -> (String, String, Value) {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .expect("curl is there and prints an answer");
    let (status, headers) = head.split_once("\r\n").unwrap();
    (
        status.to_owned(),
        headers.to_lowercase(),
        serde_json::from_str(body).unwrap(),
    )
}

#[tokio::test]
async fn printed_command_creates_a_usable_link() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &["--credits", "7"]);
    let curl = stack
        .welcome
        .lines()
        .find(|line| line.starts_with("curl "))
        .unwrap();

    let (status, headers, created) = pasted(curl);
    assert_eq!(status, "HTTP/1.1 201 Created");
    assert!(!headers.contains("idempotent-replayed"));
    assert_eq!(created["credits_balance"], 6);
    let (status, headers, again) = pasted(curl);
    assert_eq!(status, "HTTP/1.1 201 Created");
    assert!(headers.contains("idempotent-replayed: true"));
    assert_eq!(again, created);

    let http = stack.http();
    let read = http
        .get(&format!("/v1/links/{}", created["id"].as_str().unwrap()))
        .await;
    assert_eq!(read.status, 200);
    let mut shown = created.clone();
    for member in ["credits_charged", "credits_balance"] {
        shown.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(read.json(), shown);
    let list = eventually("the list shows the link", || async {
        let page = http.get("/v1/links").await.json();
        (page["items"] != json!([])).then_some(page)
    })
    .await;
    assert_eq!(
        list,
        json!({ "items": [shown], "next_cursor": null, "has_more": false })
    );

    let followed = http.follow(created["short_url"].as_str().unwrap()).await;
    assert_eq!(followed.status, 302);
    assert_eq!(followed.header("location"), "https://example.com/");
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn created_link_is_readable_at_once() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let http = stack.http();
    for n in 0..100_u32 {
        let body = json!({ "destination_url": format!("https://example.com/{n}") });
        let key = format!("00000000-0000-4000-8000-{n:012}");
        let created = http.create(&key, &body).await.json();
        let id = created["id"].as_str().unwrap();
        assert_eq!(http.get(&format!("/v1/links/{id}")).await.status, 200);
        assert_eq!(
            http.follow(created["short_url"].as_str().unwrap())
                .await
                .status,
            302
        );
    }
    let environment = stack.environment();
    for name in [
        "COMMAND_METRICS_URL",
        "PROJECTOR_METRICS_URL",
        "QUERY_METRICS_URL",
    ] {
        let metrics = http.follow(&environment[name]).await;
        assert_eq!(metrics.status, 200, "{name}");
        let ready = environment[name].replace("/metrics", "/readyz");
        assert_eq!(http.follow(&ready).await.status, 200, "{name}");
    }
    assert_eq!(stack.interrupt(), Some(0));
}
