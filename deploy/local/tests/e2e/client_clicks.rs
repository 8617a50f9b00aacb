use serde_json::{Value, json};

use crate::{
    client::{ID, link, run, text},
    scripted_server::Reply,
};

fn series() -> Value {
    json!({
        "link_id": ID,
        "interval": "day",
        "timezone": "Europe/Berlin",
        "from": "2026-11-17T23:00:00.000Z",
        "to": "2026-11-19T23:00:00.000Z",
        "complete_until": "2026-11-20T09:51:00.123Z",
        "totals": { "clicks": 11, "bots": 3, "visitors": 9 },
        "series": [
            { "start": "2026-11-17T23:00:00.000Z", "clicks": 10, "bots": 2, "visitors": 8 },
            { "start": "2026-11-18T23:00:00.000Z", "clicks": 1, "bots": 1, "visitors": 1 },
        ],
    })
}

#[test]
fn clicks_of_a_link_are_a_chart() {
    let arguments = [
        "clicks",
        ID,
        "--from",
        "2026-11-18",
        "--to",
        "2026-11-20",
        "--interval",
        "day",
        "--timezone",
        "Europe/Berlin",
    ];
    let (output, server) = run(vec![Reply::json(200, &series())], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Without a terminal the chart is 80 characters wide, and has no colours.
    let longest = "█".repeat(44);
    let expected = format!(
        "2026-11-18 00:00 to 2026-11-20 00:00, Europe/Berlin\n\
         DAY         CLICKS  VISITORS  BOTS\n\
         2026-11-18      10         8     2  {longest}\n\
         2026-11-19       1         1     1  ████▌\n\
         Total           11         9     3\n\
         Visitors are of UTC days: each counts where its noon in UTC is\n\
         Complete until 2026-11-20T09:51:00Z\n"
    );
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(
        server.request().line(),
        format!(
            "GET /v1/links/{ID}/clicks?from=2026-11-18&to=2026-11-20&interval=day\
             &timezone=Europe%2FBerlin"
        )
    );
}

#[test]
fn clicks_by_slug_look_up_the_id() {
    let found = json!({ "items": [link()], "next_cursor": null, "has_more": false });
    let script = vec![Reply::json(200, &found), Reply::json(200, &series())];
    let (output, server) = run(script, &["clicks", "--slug", "spring", "--json"]);
    assert_eq!(
        text(&output.stdout),
        format!("{}\n", series()),
        "{output:?}"
    );
    assert_eq!(server.request().line(), "GET /v1/links?slug=spring");
    let line = format!("GET /v1/links/{ID}/clicks");
    assert_eq!(server.request().line(), line);

    let script = vec![Reply::json(200, &found), Reply::json(200, &series())];
    let (output, server) = run(script, &["clicks", "127.0.0.1:8081/spring", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(server.request().line(), "GET /v1/links?slug=spring");

    let nothing = json!({ "items": [], "next_cursor": null, "has_more": false });
    let (output, _server) = run(
        vec![Reply::json(200, &nothing)],
        &["clicks", "--slug", "gone"],
    );
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("no link with the slug gone"), "{error}");
}

#[test]
fn clicks_by_value_and_by_link_are_ranked() {
    let values = json!({
        "items": [
            { "value": "DE", "clicks": 9, "visitors": 7 },
            { "value": null, "clicks": 2, "visitors": 2 },
        ],
        "other": 1,
        "complete_until": "2026-11-20T09:51:00.123Z",
    });
    let arguments = [
        "clicks",
        "--by",
        "country",
        "--limit",
        "2",
        "--from",
        "2026-11-01",
        "--to",
        "2026-11-03",
    ];
    let (output, server) = run(vec![Reply::json(200, &values)], &arguments);
    let lines: Vec<_> = text(&output.stdout).lines().collect();
    assert_eq!(lines[0], "UTC days 2026-11-01 to 2026-11-02", "{output:?}");
    assert_eq!(lines[1], "COUNTRY  CLICKS  VISITORS");
    assert!(
        lines[2].starts_with("DE            9         7  █"),
        "{lines:?}"
    );
    assert!(
        lines[3].starts_with("(none)        2         2  █"),
        "{lines:?}"
    );
    assert_eq!(lines[4], "Other         1");
    assert_eq!(lines[5], "Total        12");
    assert_eq!(lines[6], "Complete until 2026-11-20T09:51:00Z");
    let line = "GET /v1/clicks/top?by=country&limit=2&from=2026-11-01&to=2026-11-03";
    assert_eq!(server.request().line(), line);

    let ranking = json!({
        "items": [
            {
                "link_id": ID, "short_url": "http://127.0.0.1:8081/Spring",
                "destination_url": "https://example.com/", "clicks": 9, "visitors": 7,
            },
            { "link_id": ID, "short_url": null, "destination_url": null, "clicks": 1, "visitors": 1 },
        ],
        "other": 0,
        "complete_until": "2026-11-20T09:51:00.123Z",
    });
    let (output, server) = run(
        vec![Reply::json(200, &ranking)],
        &["clicks", "--by", "link", "--limit", "3"],
    );
    let line = "GET /v1/clicks/top-links?limit=3";
    assert_eq!(server.request().line(), line);
    let shown = text(&output.stdout);
    assert!(shown.contains("\nhttp://127.0.0.1:8081/Spring "), "{shown}");
    assert!(shown.contains(&format!("\n{ID} (deleted) ")), "{shown}");
    assert!(!shown.contains("Other"), "{shown}");
}

#[test]
fn empty_ranking_names_bots_and_incomplete_statistics() {
    let ranking = json!({ "items": [], "other": 0, "complete_until": "1970-01-01T00:00:00.000Z" });
    let script = vec![Reply::json(200, &ranking)];
    let (output, _server) = run(script, &["clicks", "--by", "device"]);
    let shown = text(&output.stdout);
    for part in [
        "bots are left out",
        "after some seconds",
        "Not complete yet",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn clicks_as_csv_are_printed_as_sent() {
    let table = "value,clicks,visitors\r\n'=1,9,7\r\n";
    let csv = || Reply::Answer {
        status: 200,
        headers: "content-type: text/csv; charset=utf-8; header=present\r\n",
        body: table.to_owned(),
    };
    let ranking = json!({
        "items": [{ "value": "=1", "clicks": 9, "visitors": 7 }],
        "other": 4,
        "complete_until": "2026-11-20T09:51:00.123Z",
    });
    let script = vec![Reply::json(200, &ranking), csv()];
    let (output, server) = run(script, &["clicks", "--by", "os", "--csv"]);
    assert_eq!(text(&output.stdout), table, "{output:?}");
    let notes = text(&output.stderr);
    assert!(notes.contains("other: 4 clicks beyond"), "{notes}");
    assert!(
        notes.contains("Complete until 2026-11-20T09:51:00Z"),
        "{notes}"
    );
    assert_ne!(server.request().header("accept"), Some("text/csv"));
    assert_eq!(server.request().header("accept"), Some("text/csv"));
    // An older service ignores nothing silently: JSON is no table.
    let script = vec![Reply::json(200, &series()), Reply::json(200, &series())];
    let (output, _server) = run(script, &["clicks", "--csv"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn contradictory_options_of_clicks_send_nothing() {
    for (arguments, code) in [
        (&["clicks", "spring sale"][..], 2),
        (&["clicks", ID, "--slug", "spring"], 2),
        (&["clicks", "--csv", "--json"], 2),
        (&["clicks", "--by", "os", "--interval", "day"], 2),
        (&["clicks", "--limit", "3"], 2),
        (&["clicks", "--by", "os", "--limit", "101"], 2),
        (&["clicks", "--interval", "year"], 2),
        (&["clicks", ID, "--by", "link"], 2),
        (&["clicks", "--by", "os", "--timezone", "Asia/Kolkata"], 2),
    ] {
        let (output, server) = run(Vec::new(), arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        assert!(server.requests().is_empty(), "{arguments:?}");
    }
}

#[test]
fn refused_clicks_show_the_advice_of_the_service() {
    let problem = Reply::problem(400, "", "invalid_parameter");
    let (output, _server) = run(vec![problem], &["clicks", "--from", "yesterday"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("invalid_parameter: Do this."), "{error}");
}
