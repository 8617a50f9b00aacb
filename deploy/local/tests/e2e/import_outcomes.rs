use std::{fs, process::Output};

use linkledger_testing::eventually;
use serde_json::{Value, json};

use crate::{
    client::{command, text},
    process::{Stack, data_folder, run},
    scripted_server::{Reply, ScriptedServer},
};

#[tokio::test]
async fn dry_run_creates_nothing_and_names_the_cost() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &["--credits", "50"]);
    let file = folder.path().join("links.csv");
    // An external id is repeated, and ten slugs are.
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
        printed.contains("150 would be created, 0 created before, 11 refused"),
        "{output:?}"
    );
    assert!(printed.contains("10  slug_taken"), "{output:?}");
    let dropped = "line 151 (slug-149): external id \"id-3\" was dropped: an earlier line";
    assert!(printed.contains(dropped), "{output:?}");
    assert!(
        printed.contains("Cost: 150 credits; balance: 50; missing: 100"),
        "{output:?}"
    );
    assert_eq!(stack.http().list_all().await.len(), 0);
    // The read model may not have the grant of the start yet.
    let http = stack.http();
    eventually("the whole balance", || async {
        let credits = http.get("/v1/credits").await.json();
        (credits["balance"] == 50).then_some(())
    })
    .await;
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn slug_of_a_refused_link_goes_to_the_next_one() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let file = folder.path().join("links.csv");
    let import = |rows: &[&str]| {
        let head = "destination_url,short_url,expires_at";
        fs::write(&file, [&[head], rows].concat().join("\n")).unwrap();
        let output = run(folder.path(), &["import", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(6), "{output:?}");
        [text(&output.stdout), text(&output.stderr)].concat()
    };
    let expired = "https://example.com/old,https://a.example/zSale,2020-01-01T00:00:00Z";
    let live = "https://example.com/new,https://b.example/zsale,";
    let later = "https://example.com/later,https://c.example/ZSALE,";
    let printed = import(&[expired, live, later]);
    let counts = "1 created, 0 created before, 2 refused";
    assert!(printed.contains(counts), "{printed}");
    let links = stack.http().list_all().await;
    let told = "Here, visitors of the old address come to the link \"zsale\", to https://example.com/new. \
                (expires_at_in_the_past)";
    assert!(printed.contains(told), "{printed}");
    assert_eq!(links[0]["destination_url"], "https://example.com/new");
    assert_eq!(links.len(), 1);
    // The newest link first, as many products export.
    let printed = import(&[later, live, expired]);
    let counts = "0 created, 1 created before, 2 refused";
    assert!(printed.contains(counts), "{printed}");
    // The link of the earlier run can have got another destination since.
    assert!(!printed.contains("visitors"), "{printed}");
    let told =
        "The slug \"zsale\" belongs to a link that exists or existed. (expires_at_in_the_past)";
    assert!(printed.contains(told), "{printed}");
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn refusal_names_the_slug_that_the_old_address_has_here() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let [file, refused] = ["links.csv", "refused.csv"].map(|name| folder.path().join(name));
    let import = |rows: &str, arguments: &[&str]| {
        fs::write(&file, format!("destination_url,short_url\n{rows}")).unwrap();
        run(
            folder.path(),
            &[&["import", file.to_str().unwrap()], arguments].concat(),
        )
    };
    let output = import("https://example.com/,https://a.example/zend\n", &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows = "https://example.com/2,https://sho.rt/zend.\n\
                tel:+1555,https://b.example/Zend\n\
                https://example.com/3,https://sho.rt/zend\n\
                https://example.com/4,https://sho.rt/2023/zend\n\
                tel:+1556,https://b.example/ztel\n";
    let refused_file = refused.to_str().unwrap();
    for mode in ["--allow-refused", "--dry-run"] {
        let output = import(rows, &["--refused", refused_file, mode]);
        assert!(text(&output.stdout).contains("s: 0 "), "{output:?}");
        let written = fs::read_to_string(&refused).unwrap();
        let told = "he slug \"\"zend\"\" belongs to a link that exists or existed";
        let are_told: Vec<_> = written
            .lines()
            .skip(1)
            .map(|row| row.contains(told))
            .collect();
        assert_eq!(are_told, [true, true, true, false, false], "{written}");
    }
    assert_eq!(stack.http().list_all().await.len(), 1);
    assert_eq!(stack.interrupt(), Some(0));
}

#[test]
fn known_outcomes_outlive_a_failing_question_for_slugs() {
    let folder = data_folder();
    let file = folder.path().join("links.csv");
    let rows = "https://a.example,https://s.test/aa\nhttps://b.example,https://s.test/bb.\n";
    fs::write(&file, format!("destination_url,short_url\n{rows}")).unwrap();
    let server = ScriptedServer::start(vec![
        item(&created("http://s.test/aa")),
        Reply::problem(401, "", "invalid_api_key"),
    ]);
    let arguments = ["import", file.to_str().unwrap(), "--allow-refused"];
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let noted = "which links have the slugs of refused old addresses is unknown: ";
    assert!(text(&output.stderr).contains(noted), "{output:?}");
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
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let summary = text(&output.stdout);
    assert!(summary.starts_with("2 lines in"), "{output:?}");
    let counts = "1 created, 0 created before, 0 refused, 1 unknown\n";
    assert!(summary.ends_with(counts), "{output:?}");
    assert!(
        text(&output.stderr).contains("the import stopped"),
        "{output:?}"
    );
    assert_eq!(
        fs::read_to_string(map).unwrap(),
        "line,old_address,slug,destination_url,short_url,status,code,reason,changes,\
         title,tags,external_id,expires_at,expired_url\n\
         2,a-a,a-a,https://a.example,http://s.test/a-a,created,,,,,,,,\n\
         3,b-b,b-b,https://b.example,,unknown,,,,,,,,\n"
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
    let refused = folder.path().join("refused.csv");
    let arguments = ["import", file.to_str().unwrap(), "--refused"];
    let arguments = [&arguments[..], &[refused.to_str().unwrap()]].concat();
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert_eq!(
        fs::read_to_string(refused).unwrap(),
        "line,old_address,slug,destination_url,short_url,status,code,reason,changes,\
         title,tags,external_id,expires_at,expired_url\n\
         2,s.test,,'=1\\n9\\tx,,refused,slug_missing,The old address is missing or has no slug.,\
         not carried over: domain s.test,,,,,\n"
    );
    assert!(server.requests().is_empty());
}

/// Answers a batch with these items.
fn items(status: u16, items: &[Value]) -> Reply {
    let answer = json!({ "items": items, "credits_charged": 1, "credits_balance": 9 });
    Reply::json(status, &answer)
}

/// Answers a batch of one create with this item.
fn item(item: &Value) -> Reply {
    items(207, std::slice::from_ref(item))
}

/// Item of a created link.
fn created(short_url: &str) -> Value {
    json!({ "status": 201, "replayed": false, "link": { "short_url": short_url } })
}

/// Item of a refused create.
fn refused(status: u16, code: &str) -> Value {
    let problem = json!({ "code": code, "detail": "Do this.", "status": status });
    json!({ "status": status, "replayed": false, "problem": problem })
}

/// Imports a link with an external id. Returns the output and the report.
fn import_with_external_id(server: &ScriptedServer) -> (Output, String) {
    let folder = data_folder();
    let [file, report] = ["links.csv", "report.csv"].map(|name| folder.path().join(name));
    fs::write(
        &file,
        "destination_url,slug,external_id\nhttps://a.example,a-a,order-1\n",
    )
    .unwrap();
    let arguments = [
        "import",
        file.to_str().unwrap(),
        "--out",
        report.to_str().unwrap(),
    ];
    let output = command(&server.url, &arguments).output().unwrap();
    (output, fs::read_to_string(report).unwrap())
}

/// Answers with a link, or with a refusal.
fn external_id_reply(code: Option<&str>, replayed: bool) -> Reply {
    let link = json!({ "short_url": "http://s.test/a-a" });
    item(&match code {
        None => json!({ "status": 201, "replayed": replayed, "link": link }),
        Some(code) => refused(409, code),
    })
}

#[test]
fn taken_external_id_is_dropped_and_reported() {
    let replies = vec![
        external_id_reply(Some("external_id_taken"), false),
        external_id_reply(None, false),
    ];
    let server = ScriptedServer::start(replies);
    let (output, report) = import_with_external_id(&server);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let [first, second] = [server.request().json(), server.request().json()];
    let member = |sent: &Value, name: &str| sent["items"][0][name].clone();
    assert_eq!(member(&first, "external_id"), "order-1");
    assert_eq!(member(&second, "external_id"), Value::Null);
    assert_eq!(member(&second, "slug"), "a-a");
    assert_ne!(
        member(&first, "idempotency_key"),
        member(&second, "idempotency_key")
    );
    let dropped =
        "\"external id \"\"order-1\"\" was dropped: another link of the account has the same one\"";
    assert!(report.contains(dropped), "{report}");
}

#[test]
fn link_without_its_taken_external_id_is_found_again() {
    for (second, code, status) in [(None, 0, "existing"), (Some("slug_taken"), 6, "refused")] {
        let replies = vec![
            external_id_reply(Some("slug_taken"), false),
            external_id_reply(second, true),
        ];
        let (output, report) = import_with_external_id(&ScriptedServer::start(replies));
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(report.contains(&format!(",{status},")), "{report}");
        assert_eq!(report.contains("was dropped"), code == 0, "{report}");
    }
}

#[test]
fn taken_slug_is_named_with_the_old_address() {
    let folder = data_folder();
    let file = folder.path().join("links.csv");
    fs::write(
        &file,
        "destination_url,short_url\nhttps://a.example,https://old.test/Spring\n",
    )
    .unwrap();
    let server = ScriptedServer::start(vec![item(&refused(409, "slug_taken"))]);
    let output = command(&server.url, &["import", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let line = "line 2 (https://old.test/Spring): The slug \"Spring\" belongs to a link that exists or existed";
    assert!(text(&output.stderr).contains(line), "{output:?}");
}

#[test]
fn summary_counts_lines_without_credits() {
    let folder = data_folder();
    let file = folder.path().join("addresses.txt");
    fs::write(&file, "https://a.example/\nhttps://b.example/\n").unwrap();
    let unpaid = refused(402, "insufficient_credits");
    let answers = items(207, &[created("http://s.test/a"), unpaid]);
    let server = ScriptedServer::start(vec![answers]);
    let arguments = ["import", file.to_str().unwrap(), "--allow-refused"];
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let printed = text(&output.stdout);
    assert!(printed.starts_with("2 lines in"), "{output:?}");
    let counts = "1 created, 0 created before, 1 refused\n         1  insufficient_credits\n";
    assert!(printed.ends_with(counts), "{output:?}");
}

#[test]
fn file_that_lacks_pages_is_never_done() {
    let folder = data_folder();
    let file = folder.path().join("kutt.json");
    let page = |slug: &str, total: u64| {
        let link = json!({
            "address": slug, "link": format!("https://k.test/{slug}"), "target": "https://e.com/", "visit_count": 0,
        });
        json!({ "limit": 1, "skip": 0, "total": total, "data": [link] }).to_string()
    };
    let import = |server: &ScriptedServer, option: &str| {
        let arguments = ["import", file.to_str().unwrap(), option];
        command(&server.url, &arguments).output().unwrap()
    };
    let [a, b] = ["http://s.test/a-a", "http://s.test/b-b"].map(created);

    fs::write(&file, page("a-a", 2)).unwrap();
    for (option, status, done) in [
        ("--dry-run", 200, ""),
        ("--allow-refused", 207, ", the others are done"),
    ] {
        let server = ScriptedServer::start(vec![items(status, std::slice::from_ref(&a))]);
        let output = import(&server, option);
        assert_eq!(output.status.code(), Some(6), "{output:?}");
        assert!(
            text(&output.stderr).ends_with(&format!(
                "warning: the file has 1 of 2 links: export the others too, and append them to the file\n\
                 error: the file lacks 1 link of its source{done}; append what is missing, or, if the total of the \
                 source is wrong, correct it in the last page of the file, and run the same command again\n"
            )),
            "{output:?}"
        );
        assert!(text(&output.stdout).contains("s: 1 "), "{output:?}");
        assert_eq!(server.request().json()["items"][0]["slug"], "a-a");
    }

    for (option, mending) in [
        (
            "--from=kutt",
            "; for what was refused, mend the file and run the same command again",
        ),
        ("--allow-refused", ""),
    ] {
        let server = ScriptedServer::start(vec![items(207, &[refused(409, "slug_taken")])]);
        let output = import(&server, option);
        assert_eq!(output.status.code(), Some(6), "{output:?}");
        assert!(
            text(&output.stderr).ends_with(&format!(
                "error: the file lacks 1 link of its source, and 1 of the others was refused; append what is missing, or, \
                 if the total of the source is wrong, correct it in the last page of the file, and run the same command \
                 again{mending}\n"
            )),
            "{output:?}"
        );
    }

    fs::write(&file, page("a-a", 1)).unwrap();
    let server = ScriptedServer::start(vec![items(207, std::slice::from_ref(&a))]);
    let output = import(&server, "--allow-refused");
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    fs::write(&file, page("a-a", 2) + &page("b-b", 2)).unwrap();
    let server = ScriptedServer::start(vec![items(207, &[a, b])]);
    let output = import(&server, "--allow-refused");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = "the file was taken for --from kutt\n";
    assert_eq!(text(&output.stderr), told);
}

#[test]
fn report_has_the_old_address_beside_a_new_slug() {
    let folder = data_folder();
    let [file, report] = ["links.csv", "report.csv"].map(|name| folder.path().join(name));
    fs::write(
        &file,
        "destination_url,old_address,slug\n\
         https://a.example,https://sho.rt/2023/review,review-2023\n\
         https://b.example,https://sho.rt/2024/review,spring\n",
    )
    .unwrap();
    let moved = created("http://s.test/review-2023");
    let answers = items(207, &[moved, refused(409, "slug_taken")]);
    let server = ScriptedServer::start(vec![answers]);
    let arguments = ["import", file.to_str().unwrap(), "--out"];
    let arguments = [&arguments[..], &[report.to_str().unwrap()]].concat();
    let output = command(&server.url, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let sent = server.request().json();
    assert_eq!(sent["items"][0]["slug"], "review-2023");
    assert_eq!(sent["items"][0].get("old_address"), None);
    let moved = "(https://sho.rt/2023/review): old address \"https://sho.rt/2023/review\" became \"review-2023\"";
    assert!(text(&output.stdout).contains(moved), "{output:?}");
    let rows = fs::read_to_string(report).unwrap();
    let rows: Vec<&str> = rows.lines().skip(1).collect();
    let created = "2,https://sho.rt/2023/review,review-2023,https://a.example,http://s.test/review-2023,created,,,";
    assert!(rows[0].starts_with(created), "{rows:?}");
    let refused = "3,https://sho.rt/2024/review,,https://b.example,,refused,slug_taken,";
    assert!(rows[1].starts_with(refused), "{rows:?}");
}
