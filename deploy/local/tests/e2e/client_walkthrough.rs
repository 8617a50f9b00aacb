use std::process::{Command, Output};

use linkledger_testing::eventually;
use serde_json::Value;

use crate::{
    client::{command, text},
    client_events::Follower,
    process::{Stack, data_folder, linkledger, run},
    scripted_server::{Reply, ScriptedServer},
};

/// Waits until the lists contain what the commands have written. A command waits for 1 s, in which the projector of
/// a slow machine may not get there.
async fn until_listed(stack: &Stack, is_complete: impl Fn(&[Value]) -> bool) {
    eventually("the lists contain the writes", async || {
        is_complete(&stack.http().list_all().await).then_some(())
    })
    .await;
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn commands_find_the_stack_by_data_folder() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &["--credits", "7"]);
    let linkledger = |arguments: &[&str]| run(folder.path(), arguments);

    let create = [
        "links",
        "create",
        "https://example.com/",
        "--slug",
        "Spring",
    ];
    let created = json(&linkledger(&[&create[..], &["--json"]].concat()));
    assert_eq!(created["credits_balance"], 6);
    let id = created["id"].as_str().unwrap();

    until_listed(&stack, |links| links.len() == 1).await;
    let list = linkledger(&["links", "list", "--json"]);
    let page = stack.http().get("/v1/links").await;
    assert_eq!(text(&list.stdout), format!("{}\n", text(&page.body)));
    assert_eq!(json(&list)["items"][0]["id"], id);
    let printed = stack
        .welcome
        .lines()
        .find(|line| line.contains(" links list"));
    let table = Command::new("sh")
        .args(["-c", printed.unwrap()])
        .output()
        .unwrap();
    assert!(text(&table.stdout).contains("/Spring"), "{table:?}");

    let read = linkledger(&["links", "get", id, "--json"]);
    let answer = stack.http().get(&format!("/v1/links/{id}")).await;
    assert_eq!(text(&read.stdout), format!("{}\n", text(&answer.body)));

    let balance = eventually("the charge can be read", async || {
        let balance = stack.http().get("/v1/credits").await;
        (balance.json()["balance"] == 6).then_some(balance)
    })
    .await;
    let credits = linkledger(&["credits", "--json"]);
    assert_eq!(text(&credits.stdout), format!("{}\n", text(&balance.body)));
    assert_eq!(text(&linkledger(&["credits"]).stdout), "Balance  6\n");
    let entries = linkledger(&["credits", "entries"]);
    let kinds = text(&entries.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        ["TYPE", "charge", "grant"],
        "{entries:?}"
    );

    let taken = linkledger(&create);
    assert_eq!(taken.status.code(), Some(5), "{taken:?}");
    let message = text(&taken.stderr);
    assert!(message.starts_with("error: slug_taken: "), "{message}");
    assert!(message.contains("request id: req_"), "{message}");
    let unknown = linkledger(&["links", "get", "lnk_01jd3k5x7zexrbfmv2pcg9h4ta"]);
    assert_eq!(unknown.status.code(), Some(4), "{unknown:?}");
    assert!(
        text(&unknown.stderr).contains("link_not_found"),
        "{unknown:?}"
    );
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn commands_find_change_and_delete_a_link() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let linkledger = |arguments: &[&str]| run(folder.path(), arguments);
    for slug in ["Spring", "Summer"] {
        let create = ["links", "create", "https://example.com/", "--slug", slug];
        assert_eq!(linkledger(&create).status.code(), Some(0));
    }
    until_listed(&stack, |links| links.len() == 2).await;
    let found = json(&linkledger(&[
        "links", "list", "--slug", "spring", "--json",
    ]));
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
    let id = found["items"][0]["id"].as_str().unwrap();

    let update = |destination: &str| {
        let update = [
            "links",
            "update",
            id,
            "--if-match",
            "1",
            "--destination-url",
            destination,
        ];
        linkledger(&update)
    };
    let updated = update("https://example.org/");
    assert_eq!(updated.status.code(), Some(0), "{updated:?}");
    assert!(
        text(&updated.stdout).contains("ETag         \"2\"\n"),
        "{updated:?}"
    );
    let stale = update("https://example.net/");
    assert_eq!(stale.status.code(), Some(5), "{stale:?}");
    assert!(
        text(&stale.stderr).starts_with("error: etag_mismatch: "),
        "{stale:?}"
    );
    let is_updated = |link: &Value| link["destination_url"] == "https://example.org/";
    until_listed(&stack, |links| links.iter().any(is_updated)).await;
    let filter = [
        "links",
        "list",
        "--json",
        "--destination-url",
        "https://example.org/",
    ];
    assert_eq!(json(&linkledger(&filter))["items"][0]["id"], id);

    for _ in 0..2 {
        let deleted = linkledger(&["links", "delete", id]);
        assert_eq!(deleted.status.code(), Some(0), "{deleted:?}");
    }
    until_listed(&stack, |links| links.len() == 1).await;
    let gone = linkledger(&["links", "get", id]);
    assert_eq!(gone.status.code(), Some(4), "{gone:?}");
    let left = json(&linkledger(&["links", "list", "--json"]));
    let left = left["items"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_ne!(left[0]["id"], id);
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn follower_prints_every_event_of_the_account() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let events = ["events", "--follow", "--json"];
    let mut follower = Follower::start(&mut linkledger(folder.path(), &events));
    let mut followed_types = |count: usize| {
        let lines = (0..count).map(|_| serde_json::from_str(&follower.line()).unwrap());
        let types = lines.map(|event: Value| event["type"].as_str().unwrap().to_owned());
        types.collect::<Vec<_>>()
    };
    let of_account = ["AccountCreated", "CreditsGranted", "ApiKeyIssued"];
    assert_eq!(followed_types(3), of_account);
    let create = ["links", "create", "https://example.com/", "--json"];
    let created = json(&run(folder.path(), &create));
    assert_eq!(followed_types(2), ["LinkCreated", "CreditsCharged"]);
    let id = created["id"].as_str().unwrap();
    let deleted = run(folder.path(), &["links", "delete", id]);
    assert_eq!(deleted.status.code(), Some(0), "{deleted:?}");
    assert_eq!(followed_types(1), ["LinkDeleted"]);
    assert_eq!(follower.interrupt(), (Some(0), String::new()));

    let changes = ["events", "--types", "LinkCreated,LinkDeleted"];
    let table = run(folder.path(), &changes);
    let lines: Vec<&str> = text(&table.stdout).lines().collect();
    assert_eq!(lines.len(), 2, "{table:?}");
    assert!(lines.iter().all(|line| line.contains(id)), "{lines:?}");
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn lost_create_response_leads_to_one_charge() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &["--credits", "7"]);
    let environment = stack.environment();
    let address = environment["API_URL"].strip_prefix("http://").unwrap();
    let script = vec![
        Reply::Lose(address.to_owned()),
        Reply::Forward(address.to_owned()),
        // The read that waits until the lists contain the link.
        Reply::Forward(address.to_owned()),
    ];
    let server = ScriptedServer::start(script);
    let mut create = command(
        &server.url,
        &["links", "create", "https://example.com/", "--json"],
    );
    create.env("LINKLEDGER_API_KEY", &environment["API_KEY"]);
    let output = create.output().unwrap();
    assert_eq!(json(&output)["credits_balance"], 6);
    // No notice beside JSON.
    assert_eq!(text(&output.stderr), "", "{output:?}");
    let [first, second, read] = [(); 3].map(|()| server.request());
    assert!(read.header("idempotency-key").is_none(), "{read:?}");
    assert_eq!(
        first.header("idempotency-key"),
        second.header("idempotency-key")
    );

    let links = eventually("the list shows the link", || async {
        let links = stack.http().list_all().await;
        (!links.is_empty()).then_some(links)
    })
    .await;
    assert_eq!(links.len(), 1, "{links:?}");
    assert_eq!(stack.interrupt(), Some(0));
}
