use serde_json::{Value, json};

use crate::{
    client::{ID, link, run, text},
    scripted_server::Reply,
};

#[test]
fn list_sends_filters_and_names_the_next_cursor() {
    let page = json!({ "items": [link()], "next_cursor": "c1", "has_more": true });
    let arguments = [
        "links",
        "list",
        "--slug",
        "Spring",
        "--destination-url",
        "https://example.com/?a=b&c",
        "--limit",
        "1",
        "--cursor",
        "c0",
    ];
    let (output, server) = run(vec![Reply::json(200, &page)], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "ID                              SHORT URL                     CREATED               \
         DESTINATION\n\
         lnk_01jd3k5x7zexrbfmv2pcg9h4ta  http://127.0.0.1:8081/Spring  2026-11-20T09:51:00Z  \
         https://example.com/\n"
    );
    assert_eq!(
        text(&output.stderr),
        "There are more items: add --cursor c1 for the next page, or --all for all pages\n"
    );
    assert_eq!(
        server.request().line(),
        "GET /v1/links?slug=Spring&destination_url=https%3A%2F%2Fexample.com%2F%3Fa%3Db%26c\
         &limit=1&cursor=c0"
    );
    let (output, _server) = run(vec![Reply::json(200, &page)], &["links", "list", "--json"]);
    assert_eq!(text(&output.stdout), format!("{page}\n"));
}

#[test]
fn list_sends_each_filter_by_its_name() {
    let page = json!({ "items": [], "next_cursor": null, "has_more": false });
    for (arguments, query) in [
        (&["--slug-prefix", "Spr"][..], "slug_prefix=Spr"),
        (&["--destination-host", "e.com"], "destination_host=e.com"),
        (&["--state", "disabled"], "state=disabled"),
        (&["--state", "expired"], "state=expired"),
        (&["--external-id", "crm:1"], "external_id=crm%3A1"),
        (&["--tag", "spring", "--tag", "b"], "tag=spring%2Cb"),
        (
            &["--created-from", "2026-11-20", "--created-to", "2026-11-21"],
            "created_from=2026-11-20&created_to=2026-11-21",
        ),
        (&["--sort", "created_at"], "sort=created_at"),
        (&["--sort", "-created_at"], "sort=-created_at"),
    ] {
        let command = [&["links", "list"], arguments].concat();
        let (output, server) = run(vec![Reply::json(200, &page)], &command);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let line = format!("GET /v1/links?{query}");
        assert_eq!(server.request().line(), line);
    }
}

#[test]
fn tags_are_listed_with_their_links() {
    let items = json!([{ "tag": "autumn", "links": 7 }, { "tag": "b:1", "links": 10_000 }]);
    let page = json!({ "items": items, "next_cursor": null, "has_more": false });
    let (output, server) = run(vec![Reply::json(200, &page)], &["links", "tags"]);
    assert_eq!(
        text(&output.stdout),
        " LINKS  TAG\n     7  autumn\n10000+  b:1\n"
    );
    assert_eq!(server.request().line(), "GET /v1/tags");
}

#[test]
fn history_lists_changes_of_a_named_link() {
    let entry = |version: u32, by: Value, changes: Value| {
        json!({
            "version": version,
            "type": "LinkDestinationChanged",
            "at": "2026-11-20T09:51:00.123Z",
            "by": by,
            "changes": changes,
        })
    };
    let moved = json!({ "from": null, "to": "https://b.example/" });
    let flag = json!({ "from": false, "to": true });
    let items = [
        entry(
            12,
            json!("operator"),
            json!({ "disabled": flag, "destination_url": moved }),
        ),
        entry(1, Value::Null, json!({})),
    ];
    let page = json!({ "items": items, "next_cursor": null, "has_more": false });
    let script = || {
        let found = json!({ "items": [link()], "next_cursor": null, "has_more": false });
        vec![Reply::json(200, &found), Reply::json(200, &page)]
    };
    let (output, server) = run(script(), &["links", "history", "Spring", "--limit", "2"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "VERSION  AT                    BY        TYPE                    CHANGES\n     \
         12  2026-11-20T09:51:00Z  operator  LinkDestinationChanged  \
         destination_url: - -> https://b.example/; disabled: false -> true\n      \
         1  2026-11-20T09:51:00Z  -         LinkDestinationChanged\n"
    );
    assert_eq!(server.request().line(), "GET /v1/links?slug=Spring");
    let line = format!("GET /v1/links/{ID}/history?limit=2");
    assert_eq!(server.request().line(), line);
    let script = vec![Reply::json(200, &page)];
    let (output, _server) = run(script, &["links", "history", ID, "--json"]);
    assert_eq!(text(&output.stdout), format!("{page}\n"));
}

#[test]
fn get_sends_the_instant() {
    let command = ["links", "get", ID, "--at", "2026-11-20T10:00:00+01:00"];
    let (output, server) = run(vec![Reply::json(200, &link())], &command);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        server.request().line(),
        format!("GET /v1/links/{ID}?at=2026-11-20T10%3A00%3A00%2B01%3A00")
    );
}

#[test]
fn all_pages_are_one_table_or_json_lines() {
    let script = || {
        let page = |next: Value| json!({ "items": [link()], "next_cursor": next });
        vec![
            Reply::json(200, &page("c1".into())),
            Reply::json(200, &page(Value::Null)),
        ]
    };
    let (output, server) = run(script(), &["links", "list", "--all", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), format!("{0}\n{0}\n", link()));
    assert_eq!(server.request().line(), "GET /v1/links?limit=100");
    assert_eq!(server.request().line(), "GET /v1/links?limit=100&cursor=c1");
    let (output, _server) = run(script(), &["links", "list", "--all"]);
    let lines: Vec<_> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[1], lines[2]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn interrupted_list_names_the_cursor_to_resume() {
    let page = json!({ "items": [link()], "next_cursor": "c1" });
    let (output, _server) = run(vec![Reply::json(200, &page)], &["links", "list", "--all"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stdout).lines().count(), 2, "{output:?}");
    assert!(
        text(&output.stderr).contains("--all --cursor c1"),
        "{output:?}"
    );
}

#[test]
fn cursor_that_repeats_ends_the_list() {
    let page = json!({ "items": [], "next_cursor": "c1" });
    let script = vec![Reply::json(200, &page), Reply::json(200, &page)];
    let (output, _server) = run(script, &["links", "list", "--all"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("not as the API"),
        "{output:?}"
    );
}

#[test]
fn credits_shows_balance_and_entries() {
    let (output, server) = run(
        vec![Reply::json(200, &json!({ "balance": 41 }))],
        &["credits"],
    );
    assert_eq!(text(&output.stdout), "Balance  41\n", "{output:?}");
    assert_eq!(server.request().line(), "GET /v1/credits");
    let at = "2026-11-20T09:51:00.123Z";
    let charge = json!({
        "id": "ent_1", "type": "charge", "amount": -1, "balance_after": 41, "link_id": ID,
        "created_at": at,
    });
    let grant = json!({
        "id": "ent_2", "type": "grant", "amount": 42, "balance_after": 42, "description": "Starter pack",
        "created_at": at,
    });
    let page = json!({ "items": [charge, grant], "next_cursor": null, "has_more": false });
    let (output, server) = run(vec![Reply::json(200, &page)], &["credits", "entries"]);
    assert_eq!(
        text(&output.stdout),
        "ID     CREATED               TYPE    AMOUNT  BALANCE  LINK                            DESCRIPTION\n\
         ent_1  2026-11-20T09:51:00Z  charge      -1       41  lnk_01jd3k5x7zexrbfmv2pcg9h4ta\n\
         ent_2  2026-11-20T09:51:00Z  grant       42       42                                  Starter pack\n",
        "{output:?}"
    );
    assert_eq!(server.request().line(), "GET /v1/credits/entries");
}
