//! Requests that are clicks; each arrives once and in order.

use axum::http::Method;
use linkledger_clicks::ClickKind;
use linkledger_query_api::ClickSettings;
use linkledger_service::kafka_config::ClicksConfig;
use linkledger_testing::TestDatabase;

use super::fixture::{ClickFixture, FIREFOX, PEER, assert_complete, count};
use crate::{
    process::serve_command,
    read_tables::update_redirect,
    service::{self, TestService},
};

#[tokio::test(flavor = "multi_thread")]
async fn clicks_arrive_once_in_order() {
    let fixture = ClickFixture::start().await;
    for number in 0..20 {
        fixture.link(&format!("link-{number}")).await;
    }
    for round in 0..30 {
        for number in 0..20 {
            // One visitor after another, so that the order is known.
            let referer = format!("https://page-{round}.example/");
            let headers = [("user-agent", FIREFOX), ("referer", &referer)];
            fixture.visit(&format!("link-{number}"), &headers).await;
        }
    }
    fixture.received(600).await;
    let (_database, received) = fixture.stop().await;
    assert_complete(&received);
    assert_eq!((received.len(), count(&received)), (600, 600));
    let first = received[0].click.link_id;
    let of_first = received.iter().map(|it| &it.click);
    let rounds = of_first.filter(|click| click.link_id == first);
    let rounds: Vec<_> = rounds
        .map(|click| click.details.referrer_host.clone().unwrap())
        .collect();
    let expected: Vec<_> = (0..30)
        .map(|round| format!("page-{round}.example"))
        .collect();
    assert_eq!(rounds, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_redirects_are_clicks() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    fixture.link("gone").await;
    update_redirect(
        fixture.service.pool(),
        "gone",
        "https://example.com/",
        "disabled",
    )
    .await;
    fixture.link("over").await;
    sqlx::query(
        "UPDATE read_model.redirects SET expires_at = '2001-01-01', expired_url = 'https://example.org/'
         WHERE slug_key = 'over'",
    )
    .execute(fixture.service.pool())
    .await
    .unwrap();
    let headers = [("user-agent", FIREFOX)];
    for (method, path, status) in [
        (Method::GET, "/over", 302),
        (Method::GET, "/unknown", 404),
        (Method::GET, "/-malformed", 404),
        (Method::GET, "/gone", 410),
        (Method::HEAD, "/gone", 410),
        (Method::POST, "/spring", 405),
        (Method::OPTIONS, "/spring", 204),
        (Method::HEAD, "/spring", 302),
        (Method::GET, "/SPRING", 302),
    ] {
        let answer = fixture.service.visit(method, path, PEER, &headers).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
    }
    let (_database, received) = fixture.stop().await;
    assert_complete(&received);
    let kinds: Vec<_> = received.iter().map(|it| it.click.kind).collect();
    assert_eq!(kinds, [ClickKind::Bot, ClickKind::Human]);
    assert!(received.iter().all(|it| it.click.slug == "spring"));
}

#[tokio::test(flavor = "multi_thread")]
async fn prefetches_and_programs_are_bots() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    let browser = ("user-agent", FIREFOX);
    for headers in [
        &[][..],
        &[("user-agent", "")],
        &[("user-agent", "curl/8.5.0")],
        &[browser, ("sec-purpose", "prefetch;prerender")],
        &[browser, ("purpose", "Prefetch")],
        &[browser, ("x-moz", "prefetch")],
        &[browser, ("x-purpose", "Preview")],
    ] {
        fixture.visit("spring", headers).await;
    }
    let (_database, received) = fixture.stop().await;
    assert_eq!(received.len(), 7);
    for it in received {
        assert_eq!(it.click.kind, ClickKind::Bot, "{}", it.text);
        assert_eq!(it.click.details.visitor, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_headers_never_fail_a_redirect() {
    let fixture = ClickFixture::start_with(TestDatabase::create().await, |settings| {
        settings.trusted_proxies = vec![PEER.parse().unwrap()];
    })
    .await;
    fixture.link("spring").await;
    let (long, commas) = ("x".repeat(4_000), ",".repeat(4_000));
    let nested = format!("for=\"{}", "[".repeat(2_000));
    let address = format!("https://{}", "a.".repeat(1_900));
    for value in [
        &long,
        &commas,
        &nested,
        &address,
        "\u{fffd}ÿ\t\"",
        "for=1.1.1.1;;=,",
    ] {
        for name in [
            "user-agent",
            "referer",
            "forwarded",
            "x-forwarded-for",
            "dnt",
            "sec-purpose",
        ] {
            fixture.visit("spring", &[(name, value)]).await;
        }
    }
    let (_database, received) = fixture.stop().await;
    assert_complete(&received);
    assert_eq!(received.len(), 36);
    assert!(received.iter().all(|it| it.text.len() < 2_000));
}

/// Starts a process with these settings, and returns its error.
async fn error_at_start(database: &TestDatabase, settings: &[(&str, &str)]) -> String {
    let usual = [
        ("DATABASE_URL", database.url()),
        ("ALLOW_UNSAFE_POSTGRES", "true"),
    ];
    let mut command = serve_command(&[&usual, settings].concat());
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    error.lines().last().unwrap().to_owned()
}

#[tokio::test]
async fn unusable_settings_are_named_at_start() {
    let database = TestDatabase::create().await;
    let error = error_at_start(&database, &[]).await;
    assert!(
        error.starts_with("error: --kafka-brokers is missing (KAFKA_BROKERS): ")
            && error.ends_with("or --clicks off"),
        "{error}"
    );
    let brokers = ("KAFKA_BROKERS", "127.0.0.1:1");
    for (name, flag) in [
        ("BOT_PATTERNS_FILE", "--bot-patterns-file"),
        ("GEOIP_DATABASE", "--geoip-database"),
    ] {
        let error = error_at_start(&database, &[brokers, (name, "/no/such/file")]).await;
        let expected = format!("error: cannot use {flag} /no/such/file: ");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[tokio::test]
async fn without_clicks_nothing_is_registered() {
    let service = TestService::start().await;
    let recorders: i64 = sqlx::query_scalar("SELECT count(*) FROM clicks.recorders")
        .fetch_one(service.pool())
        .await
        .unwrap();
    assert_eq!(recorders, 0);
    let config = service::config(&service.database);
    assert!(config.clicks.kafka().unwrap().is_none());
    let settings = ClickSettings {
        stream: ClicksConfig::default(),
        ..ClickSettings::off()
    };
    assert!(settings.kafka().is_err());
}
