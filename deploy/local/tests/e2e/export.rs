use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    client::{command, text},
    process::{data_folder, linkledger},
    scripted_server::{Reply, ScriptedServer},
};

fn listed(number: u32) -> Value {
    json!({
        "id": format!("lnk_{number:026}"),
        "short_url": format!("http://127.0.0.1:8081/slug-{number}"),
        "destination_url": "https://example.com/?a,b",
        "created_at": format!("2026-11-20T09:51:00.{number:03}Z"),
    })
}

fn page(links: &[Value], next_cursor: Option<&str>) -> Reply {
    let page = json!({ "items": links, "next_cursor": next_cursor });
    Reply::json(200, &page)
}

fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn interrupted_export_continues_its_file() {
    let folder = data_folder();
    let out = folder.path().join("links.csv");
    let server = ScriptedServer::start(vec![
        page(&[listed(1), listed(2)], Some("c1")),
        Reply::problem(401, "", "invalid_api_key"),
        page(&[listed(2), listed(3)], None),
    ]);
    let arguments = ["export", "--format", "csv", "--out", out.to_str().unwrap()];
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert!(
        text(&output.stderr).contains("run the same command again"),
        "{output:?}"
    );
    let [part] = &files_in(folder.path())[..] else {
        panic!("one file is there")
    };
    let digits = part.strip_prefix("links.csv.").unwrap();
    assert_eq!(digits.strip_suffix(".part").unwrap().len(), 12, "{part}");
    assert_eq!(
        server.request().line(),
        "GET /v1/links?sort=created_at&limit=100"
    );
    assert_eq!(
        server.request().line(),
        "GET /v1/links?sort=created_at&limit=100&cursor=c1"
    );

    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains("after 2 links"), "{output:?}");
    assert_eq!(
        server.request().line(),
        "GET /v1/links?sort=created_at&created_from=2026-11-20T09%3A51%3A00.002Z&limit=100"
    );
    assert_eq!(files_in(folder.path()), ["links.csv"]);
    let lines: Vec<String> = fs::read_to_string(&out)
        .unwrap()
        .lines()
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("id,short_url,slug,destination_url,title,tags"));
    assert_eq!(
        lines[3],
        "lnk_00000000000000000000000003,http://127.0.0.1:8081/slug-3,slug-3,\
         \"https://example.com/?a,b\",,,,,,2026-11-20T09:51:00.003Z,"
    );
}

#[test]
fn csv_for_spreadsheets_begins_with_a_mark() {
    let server = ScriptedServer::start(vec![page(&[listed(1)], None)]);
    let arguments = ["export", "--format", "csv", "--bom"];
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text(&output.stdout).starts_with("\u{feff}id,short_url,"),
        "{output:?}"
    );
    let output = command(&server.url, &["export", "--bom"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn export_adds_clicks_since_the_creation() {
    let totals = json!({ "totals": { "clicks": 5, "bots": 2, "visitors": 4 } });
    let server = ScriptedServer::start(vec![page(&[listed(1)], None), Reply::json(200, &totals)]);
    let output = command(&server.url, &["export", "--with-clicks"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut expected = listed(1);
    expected["clicks"] = totals["totals"].clone();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line, expected);
    server.request();
    assert_eq!(
        server.request().line(),
        "GET /v1/links/lnk_00000000000000000000000001/clicks\
         ?from=2026-11-20T09%3A51%3A00.001Z&interval=month"
    );
}

#[test]
fn link_newer_than_the_clock_has_no_clicks() {
    let error = json!({ "parameter": "from", "code": "range_empty", "detail": "Choose another." });
    let problem = json!({
        "code": "invalid_parameter", "detail": "Wrong.", "status": 400, "errors": [error],
    });
    let server = ScriptedServer::start(vec![page(&[listed(1)], None), Reply::json(400, &problem)]);
    let output = command(&server.url, &["export", "--with-clicks"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let none = json!({ "clicks": 0, "bots": 0, "visitors": 0 });
    assert_eq!(line["clicks"], none);
}

#[test]
fn export_without_a_stack_says_what_to_do() {
    let folder = data_folder();
    let output = linkledger(folder.path(), &["export"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("start the stack"),
        "{output:?}"
    );
}
