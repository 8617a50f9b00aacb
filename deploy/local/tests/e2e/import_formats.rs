use std::{fs, path::Path, process::Output};

use serde_json::{Value, json};

use crate::{
    client::{command, text},
    process::{Stack, data_folder, run},
    scripted_server::ScriptedServer,
};

/// Runs an import of a file of another product in `tests/data/import`.
fn import(folder: &Path, format: &str, name: &str, arguments: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/import")
        .join(name);
    let import = ["import", "--from", format, file.to_str().unwrap()];
    run(folder, &[&import, arguments].concat())
}

/// Files of other products: format, name, exit code, and texts of the output.
const FILES: [(&str, &str, i32, &str, &str); 6] = [
    (
        "shlink",
        "shlink.json",
        6,
        "2 created, 0 created before, 1 refused",
        "link 2 (https://other.test/spring): tag \"Spring Sale\" became \"spring sale\"",
    ),
    (
        "kutt",
        "kutt.json",
        6,
        "1 created, 0 created before, 2 refused",
        "password_not_supported",
    ),
    (
        "yourls",
        "yourls.json",
        6,
        "2 created, 0 created before, 1 refused",
        "(https://sho.rt/sub/spring): \"sub/spring\" can't be a slug here: ",
    ),
    (
        "bitly",
        "bitly.csv",
        0,
        "3 created, 0 created before, 0 refused",
        "2  domain bit.ly",
    ),
    (
        "dub",
        "dub.csv",
        6,
        "2 created, 0 created before, 3 refused",
        "slug_missing",
    ),
    (
        "shlink",
        "shlink.csv",
        6,
        "1 created, 0 created before, 1 refused",
        "1  visits",
    ),
];

#[tokio::test]
async fn files_of_other_products_are_imported_once() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    for (format, name, code, outcome, told) in FILES {
        let output = import(folder.path(), format, name, &[]);
        let printed = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(printed.contains(outcome), "{format}: {output:?}");
        assert!(printed.contains(told), "{format}: {output:?}");
        let refused = folder.path().join("refused.csv");
        let refused = refused.to_str().unwrap();
        let output = import(folder.path(), format, name, &["--refused", refused]);
        let printed = text(&output.stdout);
        assert!(printed.contains("s: 0 created"), "{format}: {output:?}");
        let output = run(folder.path(), &["import", "--from", "csv", refused]);
        let printed = text(&output.stdout);
        let none = "s: 0 created, 0 created before";
        assert!(printed.contains(none), "{format}: {output:?}");
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
    assert!(has("ozh", "https://ozh.org/?a=1&b=2"), "{links:?}");
    assert!(
        has("spring-sale", "https://example.com/spring"),
        "{links:?}"
    );
    assert!(has("github", "https://github.com/dubinc/dub"), "{links:?}");
    let is_spring = |link: &&Value| link["title"] == "Spring sale";
    let spring = links.iter().find(is_spring).unwrap();
    assert_eq!(spring["tags"], json!(["größe", "spring sale"]));
    assert_eq!(spring["expires_at"], "2030-01-20T22:00:00.000Z");
    assert_eq!(stack.interrupt(), Some(0));
}

#[test]
fn broken_file_is_refused_before_any_request() {
    let folder = data_folder();
    let server = ScriptedServer::start(Vec::new());
    for (content, format, message) in [
        (
            "{\"data\":[{\"target\"",
            "kutt",
            ": the JSON breaks off at line 1, column ",
        ),
        (
            "<html>",
            "shlink",
            ": this is HTML or XML, perhaps an error page; --from shlink expects ",
        ),
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

#[test]
fn rows_without_a_header_are_no_list_of_addresses() {
    let folder = data_folder();
    let file = folder.path().join("links.csv");
    fs::write(
        &file,
        "https://a.example/menu;menu\nhttps://a.example/map;map\n",
    )
    .unwrap();
    let server = ScriptedServer::start(Vec::new());
    let output = command(&server.url, &["import", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("first line: destination_url;slug"),
        "{output:?}"
    );
    assert!(server.requests().is_empty());
}

/// Links of Dub that are refused for slug, destination, expiry and password.
const REFUSED_LINKS: &str = "Short link,Destination URL,Title,Tags,Expires at,Password\n\
    https://dub.sh/2023/review,https://e.com/,=Title,\"news, Sale\",2090-01-01,\n\
    https://dub.sh/call,ftp://e.com/,,,,\n\
    https://dub.sh/over,https://e.com/,,,2020-01-01,\n\
    https://dub.sh/secret,https://e.com/,,,,pass\n";

/// Fills in the refused file, as its reader does.
fn mend(refused: &Path) {
    let mut reader = csv::Reader::from_path(refused).unwrap();
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|column| column == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let mut writer = csv::Writer::from_path(refused).unwrap();
    writer.write_record(&header).unwrap();
    for row in rows {
        let mut cells: Vec<String> = row.iter().map(ToOwned::to_owned).collect();
        match &row[at("code")] {
            "slug_invalid_character" => "review-2023".clone_into(&mut cells[at("slug")]),
            "url_scheme_not_allowed" => {
                "https://e.com/call".clone_into(&mut cells[at("destination_url")]);
            }
            _ => {}
        }
        writer.write_record(&cells).unwrap();
    }
    writer.flush().unwrap();
}

#[tokio::test]
async fn mended_refused_file_is_imported_with_its_details() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let [file, refused] = ["dub.csv", "refused.csv"].map(|name| folder.path().join(name));
    fs::write(&file, REFUSED_LINKS).unwrap();
    let [file, refused_file] = [&file, &refused].map(|path| path.to_str().unwrap());
    let printed = |arguments: &[&str]| {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(6), "{output:?}");
        [text(&output.stdout), text(&output.stderr)].concat()
    };
    let first = printed(&["import", file, "--refused", refused_file]);
    assert!(
        first.contains("0 created, 0 created before, 4 refused"),
        "{first}"
    );
    assert!(first.contains("mend a copy of "), "{first}");
    assert!(first.contains("refused.csv and import that ("), "{first}");
    mend(&refused);
    let mended = printed(&["import", refused_file]);
    assert!(
        mended.contains("2 created, 0 created before, 2 refused"),
        "{mended}"
    );
    for code in ["1  expires_at_in_the_past", "1  password_not_supported"] {
        assert!(mended.contains(code), "{mended}");
    }
    let again = printed(&["import", refused_file]);
    assert!(
        again.contains("0 created, 2 created before, 2 refused"),
        "{again}"
    );
    let links = stack.http().list_all().await;
    let link = |slug: &str| {
        let has_slug = |link: &&Value| link["short_url"].as_str().unwrap().ends_with(slug);
        links.iter().find(has_slug).unwrap()
    };
    let review = link("/review-2023");
    assert_eq!(review["title"], "=Title");
    assert_eq!(review["tags"], json!(["news", "sale"]));
    assert_eq!(review["expires_at"], "2090-01-01T00:00:00.000Z");
    assert_eq!(link("/call")["destination_url"], "https://e.com/call");
    assert_eq!(links.len(), 2);
    assert_eq!(stack.interrupt(), Some(0));
}
