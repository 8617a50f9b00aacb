//! Content of the pages.

use hyper::Method;
use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    event::Event,
    id::{AccountId, LinkId},
    link::{LinkCreated, LinkEvent},
    shard::Shard,
};
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_projector::operations::audit::{OperationOutcome, OperatorCommand, record_in_tx};
use linkledger_testing::{self as testing, append_events};

use super::{TestConsole, assert_lacks, assert_shows, older};
use crate::{
    events::{adjusted, deleted, destination_changed, disabled, suspended},
    fixture::Fixture,
    poisoned::{paint, rewrite},
};

/// Returns the number of rows in the tables of events.
fn rows(page: &str) -> usize {
    page.matches("class=\"type\"").count()
}

/// Returns the creation of a link whose texts are markup.
fn hostile(account_id: AccountId) -> LinkCreated {
    let link_id = LinkId::from_uuid(new_uuid(SystemClock.now()));
    let created = testing::link_created(link_id, account_id, "spring", "https://e.com/");
    let mut payload = serde_json::to_value(created).unwrap();
    for (name, value) in payload.as_object_mut().unwrap() {
        let text = match name.as_str() {
            "link_id" | "account_id" | "expires_at" => continue,
            "tags" => {
                *value = serde_json::json!(["\"><script>alert(1)</script>"]);
                continue;
            }
            "short_url" => "javascript:alert(2)",
            "destination_url" => "https://e.com/?q='\"><img src=x onerror=alert(3)>&amp;",
            _ => "\"><script>alert(1)</script>",
        };
        *value = text.into();
    }
    serde_json::from_value(payload).unwrap()
}

#[tokio::test]
async fn event_pages_lead_back_to_the_first() {
    let fixture = Fixture::new().await;
    for name in ["one", "two", "three"] {
        fixture.account_with_links(name, 30).await;
    }
    let console = TestConsole::start(&fixture.database).await;
    let (mut path, mut shown, mut pages) = ("/events".to_owned(), 0, 0);
    loop {
        let page = console.page(&path).await;
        shown += rows(&page);
        pages += 1;
        assert!(pages < 10, "it ends");
        match older(&page) {
            Some(next) => path = next,
            None => break,
        }
    }
    assert_eq!(shown, fixture.log().await.len());
    assert_eq!(pages, 4);
}

#[tokio::test]
async fn events_filter_by_account_link_and_type() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("mine", 3).await;
    let neighbour = fixture.neighbour_with_links(account_id, "other", 4).await;
    let link = fixture.append_links(account_id, "moved", 1).await.remove(0);
    let moved = destination_changed(&link, "https://elsewhere.example/");
    fixture
        .append(account_id, &[moved, suspended(account_id, true)])
        .await;
    let console = TestConsole::start(&fixture.database).await;

    let all = console.page("/events").await;
    assert_eq!(rows(&all), 1 + 6 + 2 + 2 + 1 + 8);
    let of_account = console.page(&format!("/events?account={account_id}")).await;
    assert_eq!(rows(&of_account), 1 + 6 + 2 + 2);
    assert_lacks(&of_account, &neighbour.to_string());
    let of_link = console
        .page(&format!("/events?link={}", link.link_id))
        .await;
    assert_eq!(rows(&of_link), 2);
    assert_shows(&of_link, "https://elsewhere.example/");
    let of_type = console.page("/events?type=LinkDestinationChanged").await;
    assert_eq!(rows(&of_type), 1);
    let path = format!("/events?account={account_id}&link=&type=CreditsCharged");
    assert_eq!(rows(&console.page(&path).await), 4);
    let path = format!("/events?link={}&type=LinkDestinationChanged", link.link_id);
    assert_eq!(rows(&console.page(&path).await), 1);
    let path = format!("/events?link={}&account={neighbour}", link.link_id);
    assert_eq!(rows(&console.page(&path).await), 0);
    let nothing = console.page("/events?type=LinkPainted").await;
    assert_shows(&nothing, "There is no such event.");
    assert_shows(&nothing, "value=\"LinkPainted\"");
}

#[tokio::test]
async fn client_data_is_shown_as_text() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("<b onclick=x>", 0).await;
    let (link, painted) = (hostile(account_id), hostile(account_id));
    let events = [&link, &painted].map(|it| Event::Link(LinkEvent::Created(it.clone())));
    let positions = append_events(fixture.database.pool(), account_id, &events).await;
    let change = "type = '<img src=y>', payload = '{\"colour\": \"<script>alert(4)</script>\"}'";
    let shard = Shard::of(account_id);
    rewrite(fixture.database.pool(), shard, positions[1], change).await;
    fixture.apply_log().await;
    let console = TestConsole::start(&fixture.database).await;
    for path in [
        "/".to_owned(),
        "/events".to_owned(),
        format!("/events?link={}", painted.link_id),
        format!("/events?type={}", "%22%3E%3Cscript%3Ealert(5)%3C/script%3E"),
        format!("/accounts/{account_id}"),
        format!("/links/{}", link.link_id),
        format!("/links/{}", painted.link_id),
    ] {
        let page = console.page(&path).await;
        for markup in ["<script>", "<img", "<b ", "javascript:alert(2)\""] {
            assert_lacks(&page, markup);
        }
    }
    let page = console.page(&format!("/events?account={account_id}")).await;
    for text in [
        "<b>&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;</b>",
        "&lt;img src=x onerror=alert(3)&gt;&amp;amp;</code>",
        "&lt;img src=y&gt;",
        "&lt;script&gt;alert(4)&lt;/script&gt;",
    ] {
        assert_shows(&page, text);
    }
    assert_shows(
        &console.page("/").await,
        "unknown event <code>&lt;img src=y&gt;</code>",
    );
}

#[tokio::test]
async fn account_page_shows_state_and_ledger() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("Acme & Söhne", 0).await;
    fixture.append_links(account_id, "acme", 60).await;
    let events = [
        adjusted(account_id, -250, 999_690),
        suspended(account_id, false),
    ];
    fixture.append(account_id, &events).await;
    sqlx::query("UPDATE event_store.accounts SET status = 'suspended'")
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let console = TestConsole::start(&fixture.database).await;
    let page = console.page(&format!("/accounts/{account_id}")).await;
    for text in [
        "Account <bdi>Acme &amp; Söhne</bdi>",
        "suspended; its links go on",
        "<b>−250</b>, balance 999,690",
        "<b>999,690</b> credits",
    ] {
        assert_shows(&page, text);
    }
    assert_eq!(rows(&page), 50);
    let rest = console.page(&older(&page).unwrap()).await;
    assert_eq!(rows(&rest), 63 - 50);
    assert_shows(&rest, "<b>+1,000,000</b>");
    assert_eq!(older(&rest), None);
}

#[tokio::test]
async fn account_page_shows_parking_and_unreadable_event() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("parked", 2).await;
    let log = fixture.log().await;
    paint(fixture.database.pool(), &log[1]).await;
    fixture.apply_log().await;
    let console = TestConsole::start(&fixture.database).await;
    for path in ["/".to_owned(), format!("/accounts/{account_id}")] {
        let page = console.page(&path).await;
        assert_shows(&page, "unknown event <code>LinkPainted</code> version 1");
        assert_shows(&page, &format!("/accounts/{account_id}"));
    }
    let events = console.page("/events?type=LinkPainted").await;
    assert_eq!(rows(&events), 1);
    assert_shows(&events, "cannot be read by this release");
    let path = format!("/links/{}", log[1].event.event_id);
    console.refusal(&path, 400).await;
}

#[tokio::test]
async fn link_page_shows_history_and_rows() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("links", 0).await;
    let link = fixture
        .append_links(account_id, "spring", 1)
        .await
        .remove(0);
    let events = [
        destination_changed(&link, "https://elsewhere.example/"),
        disabled(&link),
    ];
    fixture.append(account_id, &events).await;
    let console = TestConsole::start(&fixture.database).await;
    let path = format!("/links/{}", link.link_id);
    let page = console.page(&path).await;
    assert_shows(&page, "✗ disabled by the operator: ");
    assert_eq!(rows(&page), 3);
    assert_lacks(&page, "✓ the same");
    fixture.append(account_id, &[deleted(&link)]).await;
    fixture.apply_log().await;
    let page = console.page(&path).await;
    assert_shows(&page, "✗ deleted");
    assert_shows(&page, "✓ the same");
    let moved = "UPDATE read_model.redirects SET destination_url = 'https://evil.example/'";
    sqlx::query(moved)
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let page = console.page(&path).await;
    assert_shows(&page, "✗ <bdi>https://evil.example/</bdi>");
}

#[tokio::test]
async fn unreadable_read_tables_leave_the_history() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("history", 0).await;
    let link = fixture
        .append_links(account_id, "spring", 1)
        .await
        .remove(0);
    sqlx::raw_sql(
        "ALTER TABLE read_model.credit_balances RENAME TO moved_balances;
         ALTER TABLE read_model.links RENAME TO moved_links",
    )
    .execute(fixture.database.pool())
    .await
    .unwrap();
    let console = TestConsole::start(&fixture.database).await;
    let page = console.page(&format!("/links/{}", link.link_id)).await;
    assert_shows(&page, "cannot be compared");
    assert_eq!(rows(&page), 1);
}

#[tokio::test]
async fn find_accepts_ids_slugs_and_short_links() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("find", 0).await;
    let link = fixture
        .append_links(account_id, "spring", 1)
        .await
        .remove(0);
    let console = TestConsole::start(&fixture.database).await;
    let link_page = format!("/links/{}", link.link_id);
    for (query, page) in [
        (account_id.to_string(), format!("/accounts/{account_id}")),
        (format!("+{}+", link.link_id), link_page.clone()),
        ("Spring-0x".to_owned(), link_page.clone()),
        (
            "http%3A%2F%2F127.0.0.1%3A8081%2Fspring-0x%3Fa=b".to_owned(),
            link_page,
        ),
    ] {
        let path = format!("/find?q={query}");
        let answer = console.ask(Method::GET, &path, "localhost").await;
        assert_eq!(answer.status, 303, "{path}");
        assert_eq!(answer.headers["location"], page, "{path}");
    }
    let unknown = console.refusal("/find?q=summer", 404).await;
    assert_shows(&unknown, "No link has the slug <code>summer</code>");
    for query in ["", "?q=", "?q=a%00b", "?after=x&q=ab"] {
        let refusal = console.refusal(&format!("/find{query}"), 400).await;
        assert_shows(&refusal, "id");
    }
    for query in ["a%2F%2F", "%3Cscript%3E", "zz", "%25", "_"] {
        let refusal = console.refusal(&format!("/find?q={query}"), 404).await;
        assert_lacks(&refusal, "<script>");
    }
}

#[tokio::test]
async fn find_leads_to_accounts_by_part_of_name() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let name = |account_id: AccountId, name: &'static str| async move {
        sqlx::query("UPDATE event_store.accounts SET name = $2 WHERE account_id = $1")
            .bind(account_id.uuid())
            .bind(name)
            .execute(pool)
            .await
            .unwrap();
    };
    let spring = fixture.account_with_links("one", 0).await;
    let acme = fixture.account_with_links("two", 0).await;
    name(spring, "Spring <b>Ltd</b>").await;
    name(acme, "ACME Süd").await;
    let link = fixture.append_links(acme, "spring", 1).await.remove(0);
    sqlx::query("UPDATE event_store.slugs SET slug_folded = 'spring' WHERE link_id = $1")
        .bind(link.link_id.uuid())
        .execute(pool)
        .await
        .unwrap();
    let console = TestConsole::start(&fixture.database).await;

    let one = console
        .ask(Method::GET, "/find?q=acme+s", "localhost")
        .await;
    assert_eq!(one.status, 303);
    assert_eq!(one.headers["location"], format!("/accounts/{acme}"));
    let both = console.page("/find?q=spring").await;
    assert_shows(&both, &format!("/links/{}", link.link_id));
    assert_shows(&both, &format!("/accounts/{spring}"));
    assert_shows(&both, "Spring &lt;b&gt;Ltd");
    assert_lacks(&both, &format!("/accounts/{acme}"));
}

#[tokio::test]
async fn found_accounts_are_shown_page_by_page() {
    let fixture = Fixture::new().await;
    sqlx::query(
        "INSERT INTO event_store.accounts (account_id, shard, name, created_at)
         SELECT gen_random_uuid(), 0, 'Many ' || n, now() FROM generate_series(1, 51) AS n",
    )
    .execute(fixture.database.pool())
    .await
    .unwrap();
    let console = TestConsole::start(&fixture.database).await;
    let first = console.page("/find?q=many+").await;
    assert_eq!(first.matches("href=\"/accounts/").count(), 50);
    let next = older(&first).expect("a next page");
    let last = console.page(&next).await;
    assert_eq!(last.matches("href=\"/accounts/").count(), 1);
    assert_eq!(older(&last), None);
}

#[tokio::test]
async fn overview_shows_command_subject_and_outcome_lines() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("mine", 1).await.to_string();
    let command = OperatorCommand {
        name: "parked skip",
        projections: &[],
        subject: Some(&account_id),
        operator: "ada",
        reason: None,
    };
    let mut tx = PoolTransaction::begin(fixture.database.pool())
        .await
        .unwrap();
    let detail = "left out\nrun `projector parked list`";
    record_in_tx(&mut tx, &command, OperationOutcome::Done, detail)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let console = TestConsole::start(&fixture.database).await;
    let page = console.page("/").await;
    // The page may break an id between its letters.
    let command = format!("<b>parked skip</b> <span class=\"id\">{account_id}</span>");
    assert_shows(&page, &command);
    assert_shows(
        &page,
        ": left out<br>run <code>projector parked list</code>",
    );
}
