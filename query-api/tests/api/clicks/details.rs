//! Details of a click, and what must never be in a record.

use linkledger_clicks::Device;
use linkledger_testing::{
    TestDatabase,
    record::{self, Secret},
};

use super::fixture::{ClickFixture, FIREFOX};

const VISITOR: &str = "2001:db8:7:7:7:7:7:7";
const REFERRER: &str = "https://News.Example:8080/secret-path?token=secret";

/// Returns the visitors of the records, in order.
async fn visitors(fixture: ClickFixture) -> Vec<Option<u64>> {
    let (_database, received) = fixture.stop().await;
    let clicks = received.iter().map(|it| &it.click);
    clicks.map(|click| click.details.visitor).collect()
}

async fn fixture_with_salt(proxies: &'static str) -> ClickFixture {
    let database = TestDatabase::create().await;
    ClickFixture::insert_salt(&database).await;
    let fixture = ClickFixture::start_with(database, |settings| {
        let proxies = proxies.split_whitespace();
        settings.trusted_proxies = proxies.map(|it| it.parse().unwrap()).collect();
    })
    .await;
    fixture.link("spring").await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn record_has_families_and_no_personal_data() {
    record::logs();
    let fixture = fixture_with_salt("").await;
    record::secret(Secret::ClientAddress, VISITOR);
    record::secret(Secret::UserAgent, FIREFOX);
    record::secret(Secret::Referrer, REFERRER);
    let headers = [("user-agent", FIREFOX), ("referer", REFERRER)];
    fixture.visit_from(VISITOR, "spring", &headers).await;
    let (database, received) = fixture.stop().await;
    let [only] = &received[..] else {
        panic!("{received:?}");
    };
    let details = &only.click.details;
    assert!(details.visitor.is_some());
    assert_eq!(details.referrer_host.as_deref(), Some("news.example"));
    assert_eq!(details.browser.as_deref(), Some("Firefox"));
    assert_eq!(details.os.as_deref(), Some("Linux"));
    assert_eq!(details.device, Some(Device::Desktop));
    assert_eq!(details.country, None);
    for personal in [VISITOR, "secret", "8080", "Gecko", "145.0"] {
        assert!(!only.text.contains(personal), "{personal}: {}", only.text);
    }
    let tables = "SELECT (SELECT json_agg(r) FROM clicks.recorders AS r)::text
                      || (SELECT json_agg(h) FROM clicks.heartbeats AS h)::text";
    let text: String = sqlx::query_scalar(tables)
        .fetch_one(database.pool())
        .await
        .unwrap();
    for personal in [VISITOR, "secret", "Gecko"] {
        assert!(!text.contains(personal), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn visitor_is_one_address_and_agent() {
    let fixture = fixture_with_salt("").await;
    let agent = [("user-agent", FIREFOX)];
    fixture.visit("spring", &agent).await;
    fixture.visit("spring", &agent).await;
    fixture.visit_from("198.51.100.8", "spring", &agent).await;
    let other = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0";
    let other = [("user-agent", other)];
    fixture.visit("spring", &other).await;
    let visitors = visitors(fixture).await;
    let [one, again, other_address, other_agent] = visitors[..] else {
        panic!("{visitors:?}");
    };
    assert_eq!(one, again);
    assert!(one.is_some() && other_address.is_some() && other_agent.is_some());
    assert!(one != other_address && one != other_agent && other_address != other_agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn privacy_signals_prevent_a_visitor() {
    let fixture = fixture_with_salt("").await;
    for signal in [("dnt", "1"), ("sec-gpc", "1")] {
        fixture
            .visit("spring", &[("user-agent", FIREFOX), signal])
            .await;
    }
    assert_eq!(visitors(fixture).await, [None, None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn visitor_needs_a_salt() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    fixture.visit("spring", &[("user-agent", FIREFOX)]).await;
    assert_eq!(visitors(fixture).await, [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_trusted_proxies_report_the_client() {
    let fixture = fixture_with_salt("10.0.0.0/8").await;
    let agent = ("user-agent", FIREFOX);
    let client = |address| [agent, ("x-forwarded-for", address)];
    fixture
        .visit_from("10.1.1.1", "spring", &client("198.51.100.1"))
        .await;
    fixture
        .visit_from("10.2.2.2", "spring", &client("198.51.100.1"))
        .await;
    fixture
        .visit_from("198.51.100.1", "spring", &client("198.51.100.9"))
        .await;
    fixture
        .visit_from("10.1.1.1", "spring", &client("198.51.100.9"))
        .await;
    let visitors = visitors(fixture).await;
    let [by_proxy, by_other_proxy, direct, other] = visitors[..] else {
        panic!("{visitors:?}");
    };
    assert_eq!(by_proxy, by_other_proxy);
    assert_eq!(by_proxy, direct);
    assert_ne!(by_proxy, other);
}

/// Returns a file of countries in which all addresses of 198.0.0.0/8 are in Germany.
fn countries() -> Vec<u8> {
    const NODES: u8 = 8;
    const SEPARATOR: u8 = 16;
    let mut file = Vec::new();
    // One node for each bit of the network; the other side has no data.
    for bit in 0..NODES {
        let next = if bit + 1 == NODES {
            NODES + SEPARATOR
        } else {
            bit + 1
        };
        let is_set = 198_u8 >> (7 - bit) & 1 == 1;
        let (left, right) = if is_set { (NODES, next) } else { (next, NODES) };
        file.extend([0, 0, left, 0, 0, right]);
    }
    file.extend([0; SEPARATOR as usize]);
    file.extend(b"\xe1\x47country\xe1\x48iso_code\x42DE");
    file.extend(b"\xab\xcd\xefMaxMind.com\xe9");
    file.extend(b"\x4anode_count\xc1\x08\x4brecord_size\xa1\x18\x4aip_version\xa1\x04");
    file.extend(b"\x4ddatabase_type\x44Test\x49languages\x00\x04\x4bdescription\xe0");
    file.extend(b"\x5bbinary_format_major_version\xa1\x02");
    file.extend(b"\x5bbinary_format_minor_version\xa0\x4bbuild_epoch\x01\x02\x01");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn country_is_that_of_the_client_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("countries.mmdb");
    std::fs::write(&path, countries()).unwrap();
    let fixture = ClickFixture::start_with(TestDatabase::create().await, |settings| {
        settings.geoip_database = Some(path);
        settings.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    })
    .await;
    fixture.link("spring").await;
    let agent = ("user-agent", FIREFOX);
    fixture.visit_from("198.51.100.1", "spring", &[agent]).await;
    fixture.visit_from("203.0.113.1", "spring", &[agent]).await;
    fixture.visit_from("2001:db8::1", "spring", &[agent]).await;
    let by_proxy = [agent, ("x-forwarded-for", "198.51.100.1")];
    fixture.visit_from("10.1.1.1", "spring", &by_proxy).await;
    let (_database, received) = fixture.stop().await;
    let countries = received.iter().map(|it| &it.click.details.country);
    let countries: Vec<_> = countries.map(Option::as_deref).collect();
    assert_eq!(countries, [Some("DE"), None, None, Some("DE")]);
}
