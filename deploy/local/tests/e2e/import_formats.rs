use std::{fs, path::Path, process::Output};

use serde_json::{Value, json};

use crate::{
    client::{command, text},
    process::{Stack, data_folder, run},
    scripted_server::{Reply, ScriptedServer},
};

/// Runs an import of a file of another product in `tests/data/import`.
fn import(folder: &Path, format: &str, name: &str, arguments: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/import")
        .join(name);
    let import = ["import", "--from", format, file.to_str().unwrap()];
    run(folder, &[&import, arguments].concat())
}

#[tokio::test]
async fn files_of_other_products_are_imported_once() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    for (format, name, outcome, report) in [
        (
            "shlink",
            "shlink.json",
            "2 created, 0 created before, 1 refused",
            "maximum of visits",
        ),
        (
            "kutt",
            "kutt.json",
            "1 created, 0 created before, 2 refused",
            "password_not_supported",
        ),
        (
            "yourls",
            "yourls.json",
            "2 created, 0 created before, 1 refused",
            "slug_taken",
        ),
        (
            "bitly",
            "bitly.csv",
            "3 created, 0 created before, 0 refused",
            "clicks",
        ),
        (
            "dub",
            "dub.csv",
            "1 created, 0 created before, 2 refused",
            "slug_missing",
        ),
    ] {
        let output = import(folder.path(), format, name, &[]);
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(printed.contains(outcome), "{format}: {output:?}");
        assert!(printed.contains(report), "{format}: {output:?}");
        let output = import(folder.path(), format, name, &[]);
        let printed = text(&output.stdout);
        assert!(printed.contains("s: 0 created"), "{format}: {output:?}");
    }
    let links = stack.http().list_all().await;
    let has = |slug: &str, destination: &str| {
        links.iter().any(|link| {
            link["short_url"]
                .as_str()
                .unwrap()
                .ends_with(&format!("/{slug}"))
                && link["destination_url"] == destination
        })
    };
    assert!(has("12C18", "https://store.steampowered.com/"), "{links:?}");
    assert!(has("Winter_1", "https://example.com/winter"), "{links:?}");
    assert!(has("ozh", "https://ozh.org/"), "{links:?}");
    assert!(
        has("spring-sale", "https://example.com/spring"),
        "{links:?}"
    );
    assert!(has("github", "https://github.com/dubinc/dub"), "{links:?}");
    let is_spring = |link: &&Value| link["title"] == "Spring sale";
    let spring = links.iter().find(is_spring).unwrap();
    assert_eq!(spring["tags"], json!(["spring-sale"]));
    assert_eq!(spring["expires_at"], "2030-01-20T22:00:00.000Z");
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn dry_run_creates_nothing_and_names_the_cost() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &["--credits", "50"]);
    let file = folder.path().join("links.csv");
    // The batches of a dry run are decided alone: an external id is repeated in the second batch.
    let id = |n: usize| if n == 149 { 3 } else { n };
    let row = |n: usize| format!("https://example.com/{n},slug-{},id-{}\n", n % 150, id(n));
    let rows: String = (0..160).map(row).collect();
    fs::write(
        &file,
        format!("destination_url,slug,external_id\n{rows}ftp://x.example,,\n"),
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let output = run(folder.path(), &["import", file, "--dry-run"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let why = "the balance does not cover every link";
    assert!(text(&output.stderr).contains(why), "{output:?}");
    let printed = text(&output.stdout);
    assert!(
        printed.contains("149 would be created, 0 created before, 12 refused"),
        "{output:?}"
    );
    assert!(printed.contains("10  slug_taken"), "{output:?}");
    assert!(printed.contains("1  external_id_taken"), "{output:?}");
    assert!(
        printed.contains("Cost: 149 credits; balance: 50; missing: 99"),
        "{output:?}"
    );
    assert_eq!(stack.http().list_all().await.len(), 0);
    let balance = stack.http().get("/v1/credits").await.json();
    assert_eq!(balance["balance"], 50);
    assert_eq!(stack.interrupt(), Some(0));
}

#[test]
fn known_outcomes_outlive_a_failing_item() {
    let folder = data_folder();
    let file = folder.path().join("links.csv");
    fs::write(
        &file,
        "destination_url,slug\nhttps://a.example,a-a\nhttps://b.example,b-b\n",
    )
    .unwrap();
    let problem = json!({ "code": "overloaded", "detail": "Wait.", "status": 503 });
    let answer = json!({
        "items": [
            { "status": 201, "replayed": false, "link": { "short_url": "http://s.test/a-a" } },
            { "status": 503, "replayed": false, "problem": problem },
        ],
        "credits_charged": 1,
        "credits_balance": 9,
    });
    let server = ScriptedServer::start(vec![
        Reply::json(207, &answer),
        Reply::problem(401, "", "invalid_api_key"),
    ]);
    let map = folder.path().join("map.csv");
    let arguments = [
        "import",
        file.to_str().unwrap(),
        "--out",
        map.to_str().unwrap(),
    ];
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(text(&output.stdout).contains("1 line in"), "{output:?}");
    assert!(text(&output.stdout).contains("1 created"), "{output:?}");
    assert!(
        text(&output.stderr).contains("the import stopped"),
        "{output:?}"
    );
    assert_eq!(
        fs::read_to_string(map).unwrap(),
        "line,short_url,status\n2,http://s.test/a-a,created\n3,,unknown\n"
    );
    let first = server.request().json();
    let second = server.request().json();
    assert_eq!(first["items"][0]["slug"], "a-a");
    assert_eq!(
        second["items"].as_array().unwrap()[..],
        first["items"].as_array().unwrap()[1..]
    );
}

#[test]
fn import_waits_until_lists_contain_its_links() {
    let folder = data_folder();
    let file = folder.path().join("addresses.txt");
    fs::write(&file, "\u{feff}https://a.example/\n").unwrap();
    let answer = json!({
        "items": [{ "status": 201, "replayed": false, "link": { "short_url": "http://s.test/a" } }],
        "credits_charged": 1,
        "credits_balance": 9,
    });
    let created = Reply::Answer {
        status: 207,
        headers: "consistency-token: AQAA\r\n",
        body: answer.to_string(),
    };
    let behind = Reply::problem(503, "", "read_model_behind");
    let server = ScriptedServer::start(vec![created, behind]);
    let arguments = ["import", file.to_str().unwrap()];
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let sent = server.request().json();
    assert_eq!(sent["items"][0]["destination_url"], "https://a.example/");
    let request = server.request();
    assert_eq!(request.line(), "GET /v1/links?limit=1");
    assert_eq!(request.header("consistency-token"), Some("AQAA"));
}

#[test]
fn refused_address_forges_no_row() {
    let folder = data_folder();
    let file = folder.path().join("links.csv");
    fs::write(&file, "destination_url,short_url\n\"=1\n9\tx\",s.test\n").unwrap();
    let server = ScriptedServer::start(Vec::new());
    let refused = folder.path().join("refused.tsv");
    let arguments = ["import", file.to_str().unwrap(), "--refused"];
    let arguments = [&arguments[..], &[refused.to_str().unwrap()]].concat();
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let detail = "The short address is missing or has no slug.";
    assert_eq!(
        fs::read_to_string(refused).unwrap(),
        format!("2\tslug_missing\t{detail}\t'=1\\n9\\tx\n")
    );
    assert!(server.requests().is_empty());
}

#[test]
fn broken_file_is_refused_before_any_request() {
    let folder = data_folder();
    let server = ScriptedServer::start(Vec::new());
    for (content, format, message) in [
        (
            "{\"data\":[{\"target\":\"a\"}]}",
            "kutt",
            ": data[0].address: missing or empty",
        ),
        ("{\"data\":[{\"target\"", "kutt", ": line 1, column "),
        ("<html>", "shlink", ": line 1, column 1: expected value"),
        (
            "slug,url\n",
            "csv",
            ": line 1: --from csv expects the column destination_url",
        ),
    ] {
        let file = folder.path().join("links");
        fs::write(&file, content).unwrap();
        let arguments = ["import", "--from", format, file.to_str().unwrap()];
        let output = command(&server.url, &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(message), "{output:?}");
    }
    assert!(server.requests().is_empty());
}
