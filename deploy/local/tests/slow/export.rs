//! Links of one stack that are exported, and imported into another.

use std::{fs, path::Path};

use linkledger_testing::eventually;
use serde_json::{Value, json};

use crate::process::{Stack, data_folder, run, text};

const LINKS: usize = 250;

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
