//! `GET /v1/links/{id}/qr`: images, entity tags, bounds, links that the read tables lack.

use linkledger_core::{
    commands::CreateResult,
    qr_code::{Color, ErrorCorrection, QrCode, QrStyle},
};

use crate::{
    read_tables::{insert_appended_link, set_checkpoint},
    service::{SHORT_BASE_URL, TestCaller, TestService},
};

const DEFAULT_STYLE: QrStyle = QrStyle {
    size: 256,
    margin: 4,
    color: Color::BLACK,
    background: Color::WHITE,
};

fn path(link: &CreateResult, query: &str) -> String {
    format!("/v1/links/{}/qr{query}", link.link.link_id)
}

fn code(slug: &str, level: ErrorCorrection) -> QrCode {
    QrCode::of(&format!("{SHORT_BASE_URL}/{slug}"), level).unwrap()
}

async fn service_with_link(slug: &str) -> (TestService, TestCaller, CreateResult) {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, slug).await;
    insert_appended_link(service.pool(), &link).await;
    (service, caller, link)
}

#[tokio::test]
async fn image_is_code_of_short_address() {
    let (service, caller, link) = service_with_link("Sommer-Fest").await;
    let answer = service.get(&caller, &path(&link, "")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("image/svg+xml"));
    assert_eq!(
        answer.header("cache-control"),
        Some("private, max-age=3600")
    );
    let svg = code("Sommer-Fest", ErrorCorrection::Medium).to_svg(&DEFAULT_STYLE);
    assert_eq!(answer.body, svg.unwrap());

    let query = "?format=png&size=500&margin=1&ecc=H&color=102030&background=f0f0f0";
    let answer = service.get(&caller, &path(&link, query)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("image/png"));
    let style = QrStyle {
        size: 500,
        margin: 1,
        color: Color::parse("102030").unwrap(),
        background: Color::parse("f0f0f0").unwrap(),
    };
    let png = code("Sommer-Fest", ErrorCorrection::High).to_png(&style);
    assert_eq!(answer.bytes, png.unwrap());
}

#[tokio::test]
async fn accept_chooses_format_and_refuses_others() {
    let (service, caller, link) = service_with_link("accepted").await;
    for (query, accept, status, content_type) in [
        ("", "image/png", 200, "image/png"),
        ("", "image/*", 200, "image/svg+xml"),
        ("?format=png", "image/png, */*;q=0.1", 200, "image/png"),
        (
            "?format=png",
            "image/svg+xml",
            406,
            "application/problem+json",
        ),
        ("", "application/json", 406, "application/problem+json"),
    ] {
        let headers = [("accept", accept)];
        let answer = service
            .get_with(&caller, &path(&link, query), &headers)
            .await;
        assert_eq!(answer.status, status, "{query} {accept}");
        assert_eq!(answer.header("content-type"), Some(content_type));
    }
}

#[tokio::test]
async fn matching_tag_of_image_returns_304() {
    let (service, caller, link) = service_with_link("known").await;
    let plain = path(&link, "");
    let answer = service.get(&caller, &plain).await;
    let etag = answer.header("etag").unwrap().to_owned();
    assert!(etag.starts_with('"'), "{etag}");
    let headers = [("if-none-match", etag.as_str())];
    let again = service.get_with(&caller, &plain, &headers).await;
    assert_eq!(again.status, 304);
    assert_eq!(again.header("etag"), Some(etag.as_str()));
    assert_eq!(again.header("cache-control"), Some("private, max-age=3600"));
    assert_eq!(again.body, "");
    // An image that differs in anything has another tag.
    for query in [
        "?format=png",
        "?size=257",
        "?margin=3",
        "?ecc=H",
        "?color=000001",
    ] {
        let answer = service
            .get_with(&caller, &path(&link, query), &headers)
            .await;
        assert_eq!(answer.status, 200, "{query}");
        assert_ne!(answer.header("etag"), Some(etag.as_str()), "{query}");
    }
}

#[tokio::test]
async fn unreadable_images_are_refused() {
    let long = "x".repeat(64);
    let (service, caller, link) = service_with_link(&long).await;
    for (query, code) in [
        ("?size=63", "out_of_range"),
        ("?color=777777", "contrast_too_low"),
        ("?size=64&margin=16", "size_too_small"),
    ] {
        let answer = service.get(&caller, &path(&link, query)).await;
        answer.assert_problem(400, "invalid_parameter");
        assert_eq!(answer.json()["errors"][0]["code"], code, "{query}");
    }
    let largest = "?format=png&size=4096&margin=16&ecc=H";
    let answer = service.get(&caller, &path(&link, largest)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.bytes.len() < 64 * 1024, "{}", answer.bytes.len());
}

#[tokio::test]
async fn code_of_lagging_link_waits_and_is_never_404() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "fresh").await;
    let path = path(&link, "");
    service.get(&caller, &path).await.assert_read_model_behind();
    let request = || service.get(&caller, &path);
    let answer = service
        .answer_after(request, async {
            insert_appended_link(service.pool(), &link).await;
            set_checkpoint(service.pool(), "links", caller.account_id, link.position).await;
        })
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}
