//! `projector verify --link` and `--account`, with the rights of an operator.

use linkledger_core::{event::Subject, id::AccountId, shard::Shard};
use linkledger_event_store::log;
use linkledger_projector::{
    operations::verify::{
        self,
        subject::{self, SubjectReport, VerifiedSubject},
    },
    read_models::Projection,
};
use linkledger_service::databases::Databases;
use serde_json::Value;
use sqlx::PgPool;

use super::{
    command::{run, set_roles, stderr, stdout},
    damage, execute,
    skipped_and_parked::skip,
};
use crate::{
    cache_changes::changes,
    events::{adjusted, deleted, destination_changed, resumed, suspended},
    fixture::Fixture,
    poisoned::paint,
    tables::Tables,
    verified::{assert_nothing_is_wrong, first_generation},
};

/// Links of the large account: its stream has more than one part of events.
const LINKS: usize = 1_100;

async fn report(databases: &Databases, projection: Projection, subject: Subject) -> SubjectReport {
    let subject = VerifiedSubject::find(&databases.log, subject)
        .await
        .unwrap();
    let target = first_generation(projection);
    subject::verify(databases, target, &subject).await.unwrap()
}

/// Repairs the rows of an account, and returns their number.
pub(crate) async fn repair_account(
    databases: &Databases,
    projection: Projection,
    account_id: AccountId,
) -> u64 {
    let subject = Subject::Account(account_id);
    let subject = VerifiedSubject::find(&databases.log, subject)
        .await
        .unwrap();
    let target = first_generation(projection);
    let found = subject::verify(databases, target, &subject).await.unwrap();
    let repaired = verify::repair(databases, target, Some(&subject), &found.found, &|_| ())
        .await
        .unwrap();
    assert!(repaired.left.findings.is_empty(), "{repaired:?}");
    repaired.rows
}

/// An account with every type of event, beside another one, all applied.
async fn large_account(fixture: &Fixture) -> (AccountId, Tables) {
    set_roles(fixture).await;
    let account_id = fixture.account_with_links("large", 0).await;
    // Not the last status events of the account, and in an earlier part than the last one.
    let status_events = [suspended(account_id, true), resumed(account_id)];
    fixture.append(account_id, &status_events).await;
    fixture.append_links(account_id, "large", LINKS).await;
    fixture.append_every_change(account_id, "last").await;
    fixture
        .append(account_id, &[suspended(account_id, true)])
        .await;
    fixture.account_with_links("other", 1).await;
    fixture.apply_log().await;
    (account_id, Tables::read(fixture.database.pool()).await)
}

async fn damage_all(pool: &PgPool) {
    for statement in [
        "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'large-7X'",
        "DELETE FROM read_model.links WHERE slug = 'last-changed-1'",
        "UPDATE read_model.redirects SET state = 'deleted' WHERE slug_key = 'large-1030x'",
        "DELETE FROM read_model.redirects WHERE slug_key = 'last-changed-2'",
        "DELETE FROM read_model.stopped_accounts",
        "DELETE FROM read_model.credit_entries WHERE balance_after = 999990",
        "UPDATE read_model.credit_balances SET balance = 7 WHERE version > 100",
    ] {
        damage(pool, statement).await;
    }
}

#[tokio::test]
async fn account_is_verified_and_repaired_as_a_whole() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, intact) = large_account(&fixture).await;
    let right = run(&fixture, &["--account", &account_id.to_string()]).await;
    assert!(right.status.success(), "{}", stderr(&right));
    damage_all(pool).await;
    let other = "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'other-0X'";
    damage(pool, other).await;
    let damaged = Tables::read(pool).await;
    let account = account_id.to_string();

    let planned = run(&fixture, &["--account", &account, "--repair", "--dry-run"]).await;
    assert_eq!(planned.status.code(), Some(1));
    let text = stdout(&planned);
    for line in [
        "Would repair 2 rows; nothing was changed.",
        "Would repair 3 rows; nothing was changed.",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(Tables::read(pool).await, damaged);

    let last_change = changes(pool).await.into_iter().map(|row| row.0).max();
    let repaired = run(&fixture, &["--account", &account, "--repair", "--json"]).await;
    assert!(repaired.status.success(), "{}", stderr(&repaired));
    let repaired: Value = serde_json::from_slice(&repaired.stdout).unwrap();
    assert_eq!(repaired["subject"], account.as_str());
    let rows: Vec<_> = Projection::ALL
        .iter()
        .map(|it| &repaired["projections"][it.index()]["repaired"]["rows"])
        .collect();
    // The repair of an entry writes the balance too.
    assert_eq!(rows, [1, 2, 3]);
    // Only the row of the other account is left.
    assert_eq!(execute(pool, "UPDATE read_model.links SET destination_url = 'https://example.com/' WHERE slug = 'other-0X'").await, 1);
    assert_eq!(Tables::read(pool).await, intact);
    assert_nothing_is_wrong(&fixture).await;
    let told = changes(pool).await.into_iter();
    let told = told.filter(|row| Some(row.0) > last_change).count();
    assert_eq!(told, 3, "two slugs and the account");
    let recorded: Vec<(String, Option<String>)> = sqlx::query_as(
        "SELECT command, subject FROM read_model.operations WHERE command LIKE 'verify %'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let expected = ("verify --repair --account".to_owned(), Some(account));
    assert_eq!(recorded, vec![expected; Projection::ALL.len()]);
}

#[tokio::test]
async fn rows_of_a_link_are_shown_beside_the_log() {
    let fixture = Fixture::new().await;
    set_roles(&fixture).await;
    let account_id = fixture.account_with_links("mine", 2).await;
    let link = fixture.append_links(account_id, "why", 1).await.remove(0);
    let moved = destination_changed(&link, "https://b.example/");
    fixture
        .append(account_id, &[moved, adjusted(account_id, 1, 999_998)])
        .await;
    fixture.apply_log().await;
    let id = link.link_id.to_string();
    let right = run(&fixture, &["--link", &id]).await;
    assert!(right.status.success(), "{}", stderr(&right));
    let text = stdout(&right);
    let heads = log::heads(fixture.database.pool()).await.unwrap();
    let (shard, head) = (Shard::of(account_id), heads[Shard::of(account_id).index()]);
    let first = format!("{id} of {account_id}: shard {shard}, whose log ends at {head}.");
    assert_eq!(text.lines().next(), Some(first.as_str()));
    let words: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "credit_entries amount -1 same",
        "links destination_url https://b.example/ same",
        "links tags {offers,spring} same",
        "redirects state active same",
    ] {
        assert!(words.iter().any(|it| it == line), "{line}: {text}");
    }
    assert!(!text.contains("credit_balances"), "{text}");
    for name in ["WHY-0x", "127.0.0.1:8081/why-0x"] {
        assert_eq!(
            stdout(&run(&fixture, &["--link", name]).await),
            text,
            "{name}"
        );
    }

    let pool = fixture.database.pool();
    damage(
        pool,
        "UPDATE read_model.links SET title = NULL WHERE slug = 'why-0X'",
    )
    .await;
    damage(
        pool,
        "DELETE FROM read_model.redirects WHERE slug_key = 'why-0x'",
    )
    .await;
    let wrong = run(&fixture, &["--link", &id]).await;
    assert_eq!(wrong.status.code(), Some(1));
    let text = stdout(&wrong);
    assert!(text.contains("(title: log Spring offers, row -)"), "{text}");
    let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let has = |row: &str| text.lines().any(|line| cells(line) == row);
    assert!(has("links title Spring offers -"), "{text}");
    assert!(has("redirects state active no row"), "{text}");
    let repaired = run(&fixture, &["--link", &id, "--repair"]).await;
    assert!(repaired.status.success(), "{}", stderr(&repaired));
    assert_nothing_is_wrong(&fixture).await;
}

#[tokio::test]
async fn deleted_link_has_a_redirect_and_no_row() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("gone", 0).await;
    let link = fixture.append_links(account_id, "gone", 1).await.remove(0);
    fixture.append(account_id, &[deleted(&link)]).await;
    fixture.apply_log().await;
    let databases = fixture.database.databases();
    let subject = Subject::Link(link.link_id);
    let links = report(&databases, Projection::Links, subject).await;
    assert!(links.found.findings.is_empty());
    assert!(
        links
            .rows
            .iter()
            .all(|row| !row.is_expected && !row.is_found)
    );
    let redirects = report(&databases, Projection::Redirects, subject).await;
    let found = redirects.rows[0]
        .columns
        .iter()
        .find(|it| it.name == "state");
    assert_eq!(found.unwrap().row.as_deref(), Some("deleted"));
}

#[tokio::test]
async fn delays_are_named_and_are_no_mismatch() {
    let fixture = Fixture::new().await;
    set_roles(&fixture).await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("parked", 0).await;
    let link = fixture
        .append_links(account_id, "parked", 1)
        .await
        .remove(0);
    fixture.apply_log().await;
    let events = [
        adjusted(account_id, 1, 1_000_000),
        destination_changed(&link, "https://b.example/"),
    ];
    fixture.append(account_id, &events).await;
    paint(pool, &fixture.log().await[3]).await;
    fixture.apply_log().await;
    execute(
        pool,
        "UPDATE read_model.checkpoints SET paused_at = now() WHERE projection = 'redirects'",
    )
    .await;
    execute(
        pool,
        "UPDATE event_store.accounts SET status = 'suspended', redirects_stopped = true",
    )
    .await;
    let parked = run(&fixture, &["--link", &link.link_id.to_string()]).await;
    assert!(parked.status.success(), "{}", stderr(&parked));
    let text = stdout(&parked);
    for line in [
        "`links` has parked the account since 2",
        ": LinkPainted at position 4: unknown event `LinkPainted` version 1 (`projector parked show acc_",
        "`redirects` is paused, so later events wait: `projector resume redirects`",
        "the account is suspended with `--stop-redirects`: all its links answer 410",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let databases = fixture.database.databases();
    let links = report(&databases, Projection::Links, Subject::Link(link.link_id)).await;
    let row = links.rows.iter().find(|row| row.table == "links").unwrap();
    let destination = row.columns.iter().find(|it| it.name == "destination_url");
    assert_eq!(
        destination.unwrap().log.as_deref(),
        Some("https://example.com/")
    );
}

#[tokio::test]
async fn lagging_link_is_compared_up_to_the_checkpoint() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("lags", 0).await;
    let link = fixture.append_links(account_id, "lags", 1).await.remove(0);
    let databases = fixture.database.databases();
    let subject = Subject::Link(link.link_id);
    let unseen = report(&databases, Projection::Links, subject).await;
    assert_eq!((unseen.applied_up_to, unseen.found.events), (0, 0));
    assert!(unseen.found.findings.is_empty(), "{unseen:?}");

    fixture.apply_log().await;
    for n in 0..40 {
        let there = format!("https://{n}.example/");
        let moved = destination_changed(&link, &there);
        fixture.append(account_id, &[moved]).await;
    }
    fixture.apply_log().await;
    // The checkpoint and the row are set back by thirty events.
    for statement in [
        "UPDATE read_model.checkpoints SET position = 13 WHERE position > 13",
        "UPDATE read_model.links SET destination_url = 'https://9.example/', version = 11",
    ] {
        execute(fixture.database.pool(), statement).await;
    }
    let lagging = report(&databases, Projection::Links, subject).await;
    assert_eq!(lagging.applied_up_to, 13);
    assert!(lagging.found.findings.is_empty(), "{lagging:?}");
}

#[tokio::test]
async fn link_whose_charge_waits_is_repaired() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("parked", 2).await;
    let log = fixture.log().await;
    paint(pool, log.last().unwrap()).await;
    fixture.apply_log().await;
    let intact = Tables::read(pool).await;
    for table in ["links", "redirects"] {
        let lost = format!("DELETE FROM read_model.{table}");
        assert_eq!(execute(pool, &lost).await, 2);
    }
    let databases = fixture.database.databases();
    for projection in Projection::ALL {
        repair_account(&databases, projection, account_id).await;
    }
    assert_eq!(Tables::read(pool).await, intact);
}

#[tokio::test]
async fn skipped_last_event_of_a_link_is_passed_over() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("skipped", 0).await;
    let link = fixture
        .append_links(account_id, "skipped", 1)
        .await
        .remove(0);
    fixture.apply_log().await;
    let moved = destination_changed(&link, "https://b.example/");
    fixture.append(account_id, &[moved]).await;
    skip(pool, fixture.log().await.last().unwrap()).await;
    fixture.apply_log().await;
    let databases = fixture.database.databases();
    let subject = Subject::Link(link.link_id);
    let links = report(&databases, Projection::Links, subject).await;
    assert_eq!(links.found.rows_expected, 3, "the link and its two tags");
    assert!(links.found.findings.is_empty(), "{links:?}");
    damage(pool, "DELETE FROM read_model.links").await;
    let links = report(&databases, Projection::Links, subject).await;
    assert_eq!(links.found.findings.mismatches, 1);
}

#[tokio::test]
async fn unknown_link_or_account_is_refused() {
    let fixture = Fixture::new().await;
    set_roles(&fixture).await;
    for (option, id, what) in [
        (
            "--link",
            "lnk_01h455vb4pex5vsknk084sn02q",
            "the log has no such link",
        ),
        (
            "--account",
            "acc_01h455vb4pex5vsknk084sn02q",
            "there is no such account",
        ),
    ] {
        let output = run(&fixture, &[option, id]).await;
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            stderr(&output),
            format!("error: {id} does not exist: {what}\n")
        );
    }
    let output = run(&fixture, &["--link", "lnk x"]).await;
    assert_eq!(output.status.code(), Some(2));
}
