use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use linkledger_testing::eventually;
use serde_json::Value;

use crate::{
    http::Http,
    process::{Stack, data_folder, linkledger, run},
};

const LINKS: usize = 3_000;
const LINKS_SHOWN: &str = "3,000";
const CREDITS: i64 = 10_000;

/// Addresses; some occur twice, and two are refused.
fn file(folder: &Path) -> PathBuf {
    let path = folder.join("addresses.txt");
    let address = |n: usize| format!("https://example.com/{}\n", n % (LINKS - 10));
    let mut text: String = (0..LINKS).map(address).collect();
    text.push_str("ftp://ftp.example.com/\nhttps://localhost/\n");
    fs::write(&path, text).unwrap();
    path
}

fn import(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(folder, &[&["import"], arguments].concat());
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text)
}

async fn balance(http: &Http) -> i64 {
    let body = serde_json::json!({ "destination_url": "https://example.com/last" });
    let created = http
        .create("00000000-0000-4000-8000-000000000001", &body)
        .await
        .json();
    created["credits_balance"].as_i64().unwrap()
}

async fn assert_each_exactly_once(http: &Http) {
    let links = eventually("the list is complete", || async {
        let links = http.list_all().await;
        (links.len() >= LINKS).then_some(links)
    })
    .await;
    let ids: HashSet<&str> = links
        .iter()
        .map(|link| link["id"].as_str().unwrap())
        .collect();
    assert_eq!((links.len(), ids.len()), (LINKS, LINKS));
    let destination = |link: &Value| link["destination_url"].as_str().unwrap().to_owned();
    let destinations: HashSet<String> = links.iter().map(destination).collect();
    assert_eq!(destinations.len(), LINKS - 10);
}

#[tokio::test]
async fn repeated_import_creates_no_link() {
    let folder = data_folder();
    let file = file(folder.path());
    let file = file.to_str().unwrap();
    let stack = Stack::start(folder.path(), &["--credits", &CREDITS.to_string()]);

    let (code, text) = import(folder.path(), &[file]);
    assert_eq!(code, Some(6), "{text}");
    assert!(
        text.contains(&format!(
            "{LINKS_SHOWN} created, 0 created before, 2 refused"
        )),
        "{text}"
    );
    assert!(
        text.contains("line 3001 (ftp://ftp.example.com/): "),
        "{text}"
    );
    assert!(
        text.contains("error: 2 of 3,002 lines were refused; "),
        "{text}"
    );
    assert!(text.contains("1  url_scheme_not_allowed"), "{text}");
    assert!(text.contains("1  url_host_not_allowed"), "{text}");
    assert_each_exactly_once(&stack.http()).await;

    let refused = folder.path().join("refused.csv");
    let report = folder.path().join("report.csv");
    let files = [
        "--refused",
        refused.to_str().unwrap(),
        "--out",
        report.to_str().unwrap(),
    ];
    let (code, text) = import(
        folder.path(),
        &[&[file, "--allow-refused"], &files[..]].concat(),
    );
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("line 3001"), "{text}");
    let report = fs::read_to_string(report).unwrap();
    let header = "line,old_address,slug,destination_url,short_url,status,code,reason,changes,\
                  title,tags,external_id,expires_at,expired_url";
    assert_eq!(report.lines().next(), Some(header));
    assert_eq!(report.lines().count(), 1 + LINKS + 2);
    assert_eq!(report.matches(",existing,,,,,,,,\n").count(), LINKS);
    let links = stack.http().list_all().await;
    let first = report.lines().nth(1).unwrap().split(',').nth(4).unwrap();
    let link = links
        .iter()
        .find(|link| link["short_url"] == first)
        .unwrap();
    assert_eq!(link["destination_url"], "https://example.com/0");
    let refused = fs::read_to_string(refused).unwrap();
    let refused: Vec<&str> = refused.lines().collect();
    assert_eq!(refused[0], header);
    assert!(
        refused[1].starts_with("3001,,,ftp://ftp.example.com/,,refused,url_scheme_not_allowed,")
    );
    assert!(refused[2].starts_with("3002,,,https://localhost/,,refused,url_host_not_allowed,"));
    assert_eq!(refused.len(), 3);
    assert!(
        text.contains(&format!(
            "0 created, {LINKS_SHOWN} created before, 2 refused"
        )),
        "{text}"
    );
    let expected = CREDITS - i64::try_from(LINKS).unwrap() - 1;
    assert_eq!(balance(&stack.http()).await, expected);
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn import_continues_after_the_stack_was_killed() {
    let folder = data_folder();
    let file = file(folder.path());
    let file = file.to_str().unwrap();
    let stack = Stack::start(folder.path(), &["--credits", &CREDITS.to_string()]);
    let http = stack.http();
    let arguments = ["import", file, "--concurrency", "1"];
    let mut importing = linkledger(folder.path(), &arguments)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    eventually("some links are there", || async {
        let page = http.get("/v1/links?limit=100").await.json();
        page["has_more"].as_bool().unwrap().then_some(())
    })
    .await;
    stack.kill();
    // The import would go on with retries, but the next stack has other ports: the test ends the
    // import.
    let importing = importing.as_mut().unwrap();
    importing.kill().unwrap();
    importing.wait().unwrap();

    let stack = Stack::start(folder.path(), &[]);
    let (code, text) = import(folder.path(), &[file]);
    assert_eq!(code, Some(6), "{text}");
    let created = |text: &str| -> i64 {
        let (count, _) = text.split_once(" created, ").unwrap();
        let count = count.rsplit(' ').next().unwrap();
        count.replace(',', "").parse().unwrap()
    };
    let created = created(&text);
    assert!(created < i64::try_from(LINKS).unwrap(), "{text}");
    assert_each_exactly_once(&stack.http()).await;
    let expected = CREDITS - i64::try_from(LINKS).unwrap() - 1;
    assert_eq!(balance(&stack.http()).await, expected);
    assert_eq!(stack.interrupt(), Some(0));
}

#[test]
fn import_without_a_stack_says_what_to_do() {
    let folder = data_folder();
    let file = file(folder.path());
    let (code, text) = import(folder.path(), &[file.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(
        text.starts_with("error: there is no ") && text.contains("start the stack"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    let (code, text) = import(folder.path(), &["/nowhere/addresses.txt"]);
    assert_eq!(code, Some(1));
    assert!(
        text.starts_with("error: can't read /nowhere/addresses.txt: "),
        "{text}"
    );
}

#[test]
fn written_files_never_overwrite_the_import() {
    let folder = data_folder();
    let file = file(folder.path());
    let before = fs::read(&file).unwrap();
    let file = file.to_str().unwrap();
    let (code, text) = import(folder.path(), &[file, "--refused", file]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("--refused names the file that is imported"),
        "{text}"
    );
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for arguments in [&["--out", file][..], &["--refused", out, "--out", out]] {
        let (code, text) = import(folder.path(), &[&[file], arguments].concat());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("--out names"), "{text}");
    }
    assert_eq!(fs::read(file).unwrap(), before);
    fs::write(out, "an earlier report").unwrap();
    let (code, text) = import(folder.path(), &[file, "--out", out]);
    assert_ne!(code, Some(0), "{text}");
    assert_eq!(fs::read_to_string(out).unwrap(), "an earlier report");
}
