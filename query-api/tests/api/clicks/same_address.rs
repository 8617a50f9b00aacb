//! Clicks with one client address: `query-api doctor` warns, and nothing stores the address.

use std::process::Stdio;

use linkledger_testing as testing;
use serde_json::Value;
use tokio::process::Command;

use super::fixture::{ClickFixture, FIREFOX, PEER};

const AGENT: [(&str, &str); 1] = [("user-agent", FIREFOX)];
/// Number of clicks in a row from which on one address is suspicious.
const SUSPICIOUS_MIN: usize = 1_000;

/// Runs `query-api doctor`, and returns verdict and state of the check of addresses.
async fn client_addresses(fixture: &ClickFixture) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_query-api"))
        .args(["doctor", "--json"])
        .env("DATABASE_URL", fixture.service.database.url())
        .env("KAFKA_BROKERS", fixture.broker.bootstrap_servers())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|it| it["check"] == "client addresses");
    let text = |member: &str| finding.unwrap()[member].as_str().unwrap().to_owned();
    (text("verdict"), text("is"))
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_warns_of_clicks_with_one_address() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    assert_eq!(client_addresses(&fixture).await.0, "ok");
    for _ in 0..SUSPICIOUS_MIN {
        fixture.visit("spring", &AGENT).await;
    }
    let is = testing::eventually("doctor warns", async || {
        let (verdict, is) = client_addresses(&fixture).await;
        (verdict == "warning").then_some(is)
    })
    .await;
    assert!(
        is.starts_with("the last 1,000 clicks of 1 query-apis"),
        "{is}"
    );
    assert!(!is.contains(PEER));

    fixture.visit_from("203.0.113.9", "spring", &AGENT).await;
    testing::eventually("doctor is content again", async || {
        (client_addresses(&fixture).await.0 == "ok").then_some(())
    })
    .await;
}
