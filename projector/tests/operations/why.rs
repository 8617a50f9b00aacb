//! `projector why`: rows of a link or an account, with their explanation.

use std::process::Output;

use linkledger_core::{
    event::Subject, event_store::log, id::AccountId, link::LinkCreated, projection::Projection,
    shard::Shard,
};
use linkledger_projector::operations::why::{
    EventState, ProjectionWhy, WhyReport, WhyRequest, why,
};
use serde_json::Value;
use sqlx::{PgPool, raw_sql};

use crate::{
    events::{adjusted, deleted, destination_changed, disabled, suspended},
    poisoned::paint,
    process,
    stage::Stage,
};

async fn run(stage: &Stage, arguments: &[&str]) -> Output {
    process::run(&stage.database, &[&["why"][..], arguments].concat()).await
}

async fn explained(stage: &Stage, subject: Subject, limit: u16) -> WhyReport {
    why(
        &stage.database.pool().clone().into(),
        WhyRequest::newest(subject, limit),
    )
    .await
    .unwrap()
}

async fn of_link(stage: &Stage, link: &LinkCreated) -> WhyReport {
    explained(stage, Subject::Link(link.link_id), 20).await
}

async fn of_account(stage: &Stage, account_id: AccountId) -> WhyReport {
    explained(stage, Subject::Account(account_id), 20).await
}

fn of<'a>(why: &'a WhyReport, projection: &str) -> &'a ProjectionWhy {
    let mut projections = why.projections.iter();
    projections.find(|it| it.projection == projection).unwrap()
}

fn sentence<'a>(why: &'a WhyReport, projection: &str) -> &'a str {
    &of(why, projection).why
}

#[track_caller]
fn assert_begins(sentence: &str, beginning: &str) {
    assert!(sentence.starts_with(beginning), "{sentence}");
}

async fn project(stage: &Stage) {
    stage.followers().cycle(stage.log().await).await.unwrap();
}

async fn execute(pool: &PgPool, statement: &'static str) {
    raw_sql(statement).execute(pool).await.unwrap();
}

async fn account_with_link(stage: &Stage) -> (AccountId, LinkCreated) {
    account_with_link_named(stage, "why").await
}

async fn account_with_link_named(stage: &Stage, name: &str) -> (AccountId, LinkCreated) {
    let account_id = stage.account_with_links(name, 0).await;
    let link = stage.append_links(account_id, name, 1).await.remove(0);
    (account_id, link)
}

#[tokio::test]
async fn link_is_explained_from_creation_to_deletion() {
    let stage = Stage::set().await;
    let (account_id, link) = account_with_link(&stage).await;
    let unseen = of_link(&stage, &link).await;
    assert_begins(
        sentence(&unseen, "links"),
        "does not show it; LinkCreated at position 2 (version 1, ",
    );
    assert!(sentence(&unseen, "links").contains("is not applied yet, the checkpoint is at 0"));
    assert_begins(
        sentence(&unseen, "redirects"),
        "has no row for it; LinkCreated",
    );
    assert_eq!(unseen.events[0].projections["links"], EventState::NotYet);

    project(&stage).await;
    let seen = of_link(&stage, &link).await;
    assert_begins(
        sentence(&seen, "links"),
        "shows https://example.com/ as of LinkCreated at position 2 (version 1, ",
    );
    assert_begins(
        sentence(&seen, "redirects"),
        "302 to https://example.com/ as of LinkCreated",
    );
    assert_begins(
        sentence(&seen, "credits"),
        "shows a charge of -1, which left 999,999 (version 2 of the account, ent_",
    );
    assert_eq!(seen.events[0].projections["links"], EventState::Applied);

    let events = [
        destination_changed(&link, "https://b.example/"),
        disabled(&link),
    ];
    stage.append(account_id, &events).await;
    project(&stage).await;
    let changed = of_link(&stage, &link).await;
    assert_begins(
        sentence(&changed, "links"),
        "shows https://b.example/ as of LinkDisabled",
    );
    assert_begins(
        sentence(&changed, "redirects"),
        "410, because it is disabled as of LinkDisabled at position 5 (version 3, ",
    );
    stage
        .append(account_id, &[suspended(account_id, true)])
        .await;
    project(&stage).await;
    let stopped = of_link(&stage, &link).await;
    assert_begins(
        sentence(&stopped, "redirects"),
        "410, because links of acc_",
    );

    stage.append(account_id, &[deleted(&link)]).await;
    project(&stage).await;
    let gone = of_link(&stage, &link).await;
    assert_begins(
        sentence(&gone, "links"),
        "does not show it because of LinkDeleted at position 7 (version 4, ",
    );
    for it in [&unseen, &seen, &changed, &stopped, &gone] {
        for projection in ["credits", "links", "redirects"] {
            assert_eq!(of(it, projection).agrees, Some(true), "{it:?}");
        }
    }
}

#[tokio::test]
async fn event_behind_a_parked_one_is_explained() {
    let stage = Stage::set().await;
    let (account_id, link) = account_with_link(&stage).await;
    project(&stage).await;
    let events = [
        adjusted(account_id, 1, 1_000_000),
        destination_changed(&link, "https://b.example/"),
    ];
    stage.append(account_id, &events).await;
    paint(stage.database.pool(), &stage.log().await[3]).await;
    project(&stage).await;

    let waits = of_link(&stage, &link).await;
    let links = of(&waits, "links");
    assert_begins(
        &links.why,
        "shows https://example.com/ as of LinkCreated at position 2",
    );
    let reason = "; LinkDestinationChanged at position 5 (version 2, ";
    assert!(links.why.contains(reason), "{}", links.why);
    assert!(
        links
            .why
            .contains("waits, because the account has been parked since 2")
    );
    assert!(
        links.why.ends_with(
            "for LinkPainted at position 4: unknown event `LinkPainted` version 1 \
             (`projector parked list`)"
        ),
        "{}",
        links.why
    );
    assert_eq!(links.agrees, Some(true));
    assert_eq!(waits.events[0].projections["links"], EventState::Waits);
    assert_eq!(waits.events[1].projections["links"], EventState::Applied);

    let account = of_account(&stage, account_id).await;
    assert_begins(
        sentence(&account, "credits"),
        "shows a balance of 999,999 as of CreditsCharged at position 3 (version 2, ",
    );
    assert!(sentence(&account, "credits").contains("; LinkPainted at position 4"));
    assert_eq!(of(&account, "credits").agrees, Some(true));
}

#[tokio::test]
async fn pause_is_explained_with_the_remedy() {
    let stage = Stage::set().await;
    let (_, link) = account_with_link(&stage).await;
    execute(
        stage.database.pool(),
        "UPDATE read_model.checkpoints SET paused_at = '2026-11-20T12:00:00Z'
         WHERE projection = 'links'",
    )
    .await;
    let paused = of_link(&stage, &link).await;
    let reason = "because the projection has been paused at position 0 since \
                  2026-11-20T12:00:00.000Z: `projector resume links`";
    assert!(sentence(&paused, "links").ends_with(reason), "{paused:?}");
}

#[tokio::test]
async fn rows_that_differ_from_the_log_are_named() {
    let stage = Stage::set().await;
    let (account_id, link) = account_with_link(&stage).await;
    project(&stage).await;
    execute(
        stage.database.pool(),
        "UPDATE read_model.links SET destination_url = 'https://evil.example/';
         DELETE FROM read_model.redirects;
         UPDATE read_model.credit_balances SET balance = 7",
    )
    .await;
    let differs = of_link(&stage, &link).await;
    let details = "title `Spring offers`, external id `offers/why-0X`, tags `offers, spring`, \
                   expires at `2099-12-31T23:59:59.000Z`, expired URL `https://example.com/offers`";
    assert_eq!(
        sentence(&differs, "links"),
        format!(
            "shows https://evil.example/ under why-0X (version 1, {details}), but the log says \
             that it shows https://example.com/ under why-0X (version 1, {details}); run \
             `projector verify links`"
        )
    );
    assert_eq!(of(&differs, "links").agrees, Some(false));
    assert_eq!(of(&differs, "redirects").agrees, Some(false));
    assert_eq!(of(&differs, "credits").agrees, Some(true));
    assert_eq!(
        sentence(&differs, "redirects"),
        "has no row for it, but the log says that it leads from why-0x to https://example.com/ \
         (active, until 2099-12-31T23:59:59.000Z, then 302 to https://example.com/offers); run \
         `projector verify redirects`"
    );
    let account = of_account(&stage, account_id).await;
    assert_eq!(
        sentence(&account, "credits"),
        "shows a balance of 7 (version 2); that differs from what the log says: run `projector \
         verify credits`"
    );
}

#[tokio::test]
async fn unreadable_and_skipped_events_are_not_compared() {
    let stage = Stage::set().await;
    let (account_id, link) = account_with_link(&stage).await;
    project(&stage).await;
    // Both events look as if a later release had applied them: a link's creation, and the charge.
    for event in [1, 2] {
        paint(stage.database.pool(), &stage.log().await[event]).await;
    }
    let unread = of_link(&stage, &link).await;
    assert_eq!(of(&unread, "links").agrees, None);
    let sentence = sentence(&unread, "links");
    assert!(
        sentence.ends_with("; this release cannot read the event that decides the row"),
        "{sentence}"
    );
    let account = of_account(&stage, account_id).await;
    assert_eq!(of(&account, "credits").agrees, None);

    let (_, other) = account_with_link_named(&stage, "other").await;
    project(&stage).await;
    execute(
        stage.database.pool(),
        "INSERT INTO read_model.skipped_events
             (projection, shard, position, event_id, account_id, event_type, operator, reason)
         SELECT 'links', shard, position, event_id, account_id, type, 'ann@ops', 'test'
         FROM event_store.events",
    )
    .await;
    let skipped = of_link(&stage, &other).await;
    assert_eq!(of(&skipped, "links").agrees, None);
    assert_eq!(of(&skipped, "redirects").agrees, Some(true));
    assert_eq!(skipped.events[0].projections["links"], EventState::Skipped);
    assert_eq!(
        skipped.events[0].projections["redirects"],
        EventState::Applied
    );
}

#[tokio::test]
async fn stopped_redirects_are_compared_with_the_log() {
    let stage = Stage::set().await;
    let (account_id, _) = account_with_link(&stage).await;
    stage
        .append(account_id, &[suspended(account_id, true)])
        .await;
    execute(
        stage.database.pool(),
        "UPDATE event_store.accounts SET status = 'suspended', redirects_stopped = true",
    )
    .await;
    project(&stage).await;
    let account = of_account(&stage, account_id).await;
    assert_eq!(
        sentence(&account, "redirects"),
        "410 for all its links, because they are stopped"
    );
    assert_eq!(of(&account, "redirects").agrees, Some(true));
    assert_eq!(sentence(&account, "links"), "shows 1 link");
    execute(
        stage.database.pool(),
        "DELETE FROM read_model.stopped_accounts",
    )
    .await;
    let account = of_account(&stage, account_id).await;
    assert_eq!(of(&account, "redirects").agrees, Some(false));
}

#[tokio::test]
async fn long_stream_is_explained_from_the_checkpoint() {
    let stage = Stage::set().await;
    let (account_id, link) = account_with_link(&stage).await;
    for n in 0..40 {
        let there = format!("https://{n}.example/");
        stage
            .append(account_id, &[destination_changed(&link, &there)])
            .await;
    }
    let pool = stage.database.pool();
    project(&stage).await;
    // The checkpoint is set back by thirty events.
    let shard = Shard::of(account_id).number();
    for statement in [
        "UPDATE read_model.checkpoints SET position = 13 WHERE shard = $1",
        "UPDATE read_model.links SET destination_url = 'https://9.example/', version = 11
         WHERE $1 >= 0",
    ] {
        sqlx::query(statement)
            .bind(shard)
            .execute(pool)
            .await
            .unwrap();
    }
    let why = explained(&stage, Subject::Link(link.link_id), 3).await;
    assert_eq!((why.events_in_all, why.events.len()), (41, 3));
    assert_begins(
        sentence(&why, "links"),
        "shows https://9.example/ as of LinkDestinationChanged at position 13 (version 11, ",
    );
    assert_eq!(of(&why, "links").agrees, Some(true));
}

#[tokio::test]
async fn why_prints_events_and_one_sentence_each() {
    let stage = Stage::set().await;
    let (account_id, link) = account_with_link(&stage).await;
    project(&stage).await;
    let link_id = link.link_id.to_string();
    let output = run(&stage, &[&link_id]).await;
    let text = process::stdout(&output);
    assert!(
        text.starts_with(&format!("{link_id} of {account_id}: 1 event; shard ")),
        "{text}"
    );
    assert!(text.contains("LinkCreated  2"), "{text}");
    assert!(text.contains("  applied\n"), "{text}");
    let mut lines: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    lines.retain(|line| Projection::ALL.iter().any(|it| line.starts_with(it.name())));
    for (projection, beginning) in [
        (Projection::Credits, "credits shows "),
        (Projection::Links, "links shows "),
        (Projection::Redirects, "redirects 302 to "),
    ] {
        assert_begins(&lines[projection.index()], beginning);
    }
    for name in ["WHY-0x", "127.0.0.1:8081/why-0x"] {
        let named = run(&stage, &[name]).await;
        assert_eq!(process::stdout(&named), text, "{name}");
    }
    let elsewhere = run(&stage, &["https://example.com/why-0X"]).await;
    assert_eq!(elsewhere.status.code(), Some(1), "{elsewhere:?}");
    let output = run(&stage, &[&link_id, "--json"]).await;
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["events"][0]["type"], "LinkCreated");
    assert_eq!(value["events"][0]["data"]["slug"], "why-0X");
    assert_eq!(value["events"][0]["projections"]["links"], "applied");
    let of_links = &value["projections"][Projection::Links.index()];
    assert_eq!(of_links["shows"]["destination_url"], "https://example.com/");
    assert_eq!(of_links["agrees"], true);
    let heads = log::heads(stage.database.pool()).await.unwrap();
    assert_eq!(value["head"], heads[Shard::of(account_id).index()]);
}

#[tokio::test]
async fn unknown_subject_is_refused() {
    let stage = Stage::set().await;
    for (id, what) in [
        ("lnk_01h455vb4pex5vsknk084sn02q", "the log has no such link"),
        ("acc_01h455vb4pex5vsknk084sn02q", "there is no such account"),
    ] {
        let output = run(&stage, &[id]).await;
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error, format!("error: {id} does not exist: {what}\n"));
    }
    let output = run(&stage, &["lnk x"]).await;
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("an account is named by its id (acc_…)"));
}
