use std::{fs, path::Path};

use linkledger_testing::eventually;
use serde_json::{Value, json};

use crate::{
    client::{command, text},
    process::{Stack, data_folder, linkledger, run},
    scripted_server::{Reply, ScriptedServer},
};

const LINKS: usize = 250;

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

/// Returns the members that two services can share, in the order of the slugs.
fn shared_members(export: &str) -> Vec<Value> {
    let mut links: Vec<Value> = export
        .lines()
        .map(|line| {
            let mut link: Value = serde_json::from_str(line).unwrap();
            let members = link.as_object_mut().unwrap();
            for own in ["id", "created_at"] {
                assert!(members.remove(own).is_some(), "{line}");
            }
            let short_url = members["short_url"].as_str().unwrap();
            let slug = short_url.rsplit('/').next().unwrap().to_owned();
            members.insert("short_url".to_owned(), slug.into());
            link
        })
        .collect();
    links.sort_by_key(|link| link["short_url"].as_str().unwrap().to_owned());
    links
}

/// Exports from a stack whose read tables have all links.
async fn export(stack: &Stack, folder: &Path, arguments: &[&str]) -> String {
    eventually("the list is complete", || async {
        (stack.http().list_all().await.len() == LINKS).then_some(())
    })
    .await;
    let output = run(folder, &[&["export"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout).to_owned()
}

fn import(folder: &Path, file: &Path) {
    let output = run(folder, &["import", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let created = format!("{LINKS} created, 0 created before, 0 refused");
    assert!(text(&output.stdout).contains(&created), "{output:?}");
}

/// CSV with links of which every second one has all details.
fn links_with_details() -> String {
    let row = |n: usize| {
        let url = format!("\"https://example.com/?a={n},'b%20c\"");
        if n.is_multiple_of(2) {
            return format!("{url},,,,,\n");
        }
        let details = "\"'=1, \"\"é\"\"\",\"b:c,a\"";
        format!("{url},{details},id-{n},2090-01-01T02:00:00+02:00,https://example.com/over\n")
    };
    let header = "destination_url,title,tags,external_id,expires_at,expired_url\n";
    header.to_owned() + &(0..LINKS).map(row).collect::<String>()
}

/// Titles that a program on the way may change: formulas, quotes, markup, bytes that look like escapes, characters
/// without a width, from right to left, of four bytes, or with two spellings.
const HOSTILE_TITLES: [&str; 24] = [
    "=1+1",
    "a;=1+1",
    "a;\"=1&\"\";'=b",
    "Sale ;-)",
    "\u{ff1d}1",
    "'=1",
    "@SUM(A1)",
    "\"",
    "a,b;c|d",
    "  two spaces  ",
    "<script>alert(1)</script>",
    "&amp;%00\\u0000",
    "{{7*7}}",
    "null",
    "\u{202e}gpj.exe",
    "\u{200b}",
    "\u{feff}mark",
    "\u{2028}line",
    "e\u{301}",
    "\u{e9}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{fffe}",
    "\u{10ffff}",
    "#fragment",
];

/// Returns the titles in order.
async fn listed_titles(stack: &Stack) -> Vec<String> {
    let links = eventually("the list is complete", || async {
        let links = stack.http().list_all().await;
        (links.len() == HOSTILE_TITLES.len()).then_some(links)
    });
    let title = |link: &Value| link["title"].as_str().unwrap().to_owned();
    let mut titles: Vec<String> = links.await.iter().map(title).collect();
    titles.sort();
    titles
}

#[tokio::test]
async fn hostile_titles_survive_export_and_import() {
    let source = data_folder();
    let stack = Stack::start(source.path(), &[]);
    let http = stack.http();
    let create = async |number: usize, title: &str| {
        let key = format!("00000000-0000-4000-8000-{number:012}");
        let body = json!({ "destination_url": "https://example.com/", "title": title });
        http.create(&key, &body).await
    };
    let too_long = "x".repeat(201);
    let refused = ["", "\0", "a\tb", "a\nb", "\u{7f}", "\u{85}", &too_long];
    for (number, title) in (100..).zip(refused) {
        let answer = create(number, title).await;
        assert_eq!(answer.status, 422, "{title:?}");
        assert_eq!(answer.json()["errors"][0]["code"], "title_invalid");
    }
    for (number, title) in (0..).zip(HOSTILE_TITLES) {
        let answer = create(number, title).await;
        assert_eq!(answer.status, 201, "{title:?}");
        assert_eq!(answer.json()["title"], title);
    }
    let mut expected = HOSTILE_TITLES.map(str::to_owned);
    expected.sort();
    assert_eq!(listed_titles(&stack).await, expected);
    let files = ["ndjson", "csv"].map(|format| {
        let file = source.path().join(format!("links.{format}"));
        let to_file = [
            "export",
            "--format",
            format,
            "--out",
            file.to_str().unwrap(),
        ];
        let output = run(source.path(), &to_file);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        file
    });
    assert_eq!(stack.interrupt(), Some(0));
    for file in files {
        let copy = data_folder();
        let stack = Stack::start(copy.path(), &[]);
        let output = run(copy.path(), &["import", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(listed_titles(&stack).await, expected, "{}", file.display());
        assert_eq!(stack.interrupt(), Some(0));
    }
}

#[tokio::test]
async fn exported_links_are_equal_after_an_import() {
    let (source, copy, second_copy) = (data_folder(), data_folder(), data_folder());
    let list = source.path().join("links.csv.source");
    fs::write(&list, links_with_details()).unwrap();
    let stack = Stack::start(source.path(), &[]);
    import(source.path(), &list);
    let before = export(&stack, source.path(), &[]).await;
    assert_eq!(before.lines().count(), LINKS);
    assert_eq!(
        before.matches("\"tags\":[\"a\",\"b:c\"]").count(),
        LINKS / 2
    );
    assert_eq!(before.matches("\"expired_url\":").count(), LINKS / 2);
    let created = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let times: Vec<Value> = before
        .lines()
        .map(|line| created(line)["created_at"].clone())
        .collect();
    assert!(times.is_sorted_by_key(|time| time.as_str().unwrap().to_owned()));
    let ndjson = source.path().join("links.ndjson");
    let csv = source.path().join("links.csv");
    let to_file = ["--out", ndjson.to_str().unwrap(), "--with-clicks"];
    assert_eq!(export(&stack, source.path(), &to_file).await, "");
    let to_file = ["--out", csv.to_str().unwrap(), "--format", "csv"];
    assert_eq!(export(&stack, source.path(), &to_file).await, "");
    let with_clicks = fs::read_to_string(&ndjson).unwrap();
    let none = "\"clicks\":{\"clicks\":0,\"bots\":0,\"visitors\":0}";
    assert_eq!(with_clicks.matches(none).count(), LINKS);
    assert_eq!(stack.interrupt(), Some(0));

    for (folder, file) in [(&copy, &ndjson), (&second_copy, &csv)] {
        let stack = Stack::start(folder.path(), &[]);
        import(folder.path(), file);
        let after = export(&stack, folder.path(), &[]).await;
        assert_eq!(shared_members(&after), shared_members(&before));
        assert_eq!(stack.interrupt(), Some(0));
    }
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
