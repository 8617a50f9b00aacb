use linkledger_core::qr_code::{ErrorCorrection, QrCode};
use serde_json::json;

use crate::{
    client::{ID, link, run, text},
    scripted_server::Reply,
};

fn image() -> Reply {
    Reply::Answer {
        status: 200,
        headers: "content-type: image/png\r\n",
        body: "an image".to_owned(),
    }
}

#[test]
fn code_in_a_pipe_is_text_without_colours() {
    let arguments = ["links", "qr", ID, "--ecc", "h"];
    let (output, server) = run(vec![Reply::json(200, &link())], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(server.request().line(), format!("GET /v1/links/{ID}"));
    let code = QrCode::of("http://127.0.0.1:8081/Spring", ErrorCorrection::High).unwrap();
    // Two modules of margin on each side, and two modules in each character.
    let side = usize::from(code.modules()) + 4;
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), side.div_ceil(2));
    assert!(lines.iter().all(|line| line.chars().count() == side));
    assert!(lines[1].starts_with("  █▀▀▀▀▀█ "), "{}", lines[1]);
    assert_eq!(text(&output.stderr), "http://127.0.0.1:8081/Spring\n");
}

#[test]
fn image_is_written_in_the_format_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("code.png");
    let out = file.to_str().unwrap();
    let arguments = [
        "links",
        "qr",
        ID,
        "--out",
        out,
        "--size",
        "512",
        "--margin",
        "0",
        "--ecc",
        "Q",
        "--color",
        "102A43",
        "--background",
        "ffffff",
    ];
    let (output, server) = run(vec![image()], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        server.request().line(),
        format!(
            "GET /v1/links/{ID}/qr?format=png&size=512&margin=0&ecc=Q&color=102a43&background=ffffff"
        )
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"an image");
    assert_eq!(text(&output.stdout), "");

    let (_output, server) = run(
        vec![image()],
        &["links", "qr", ID, "--out", out, "--format", "svg"],
    );
    assert!(server.request().line().ends_with("/qr?format=svg"));
}

#[test]
fn refused_image_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("code.svg");
    let out = file.to_str().unwrap();
    let refused = Reply::problem(400, "", "invalid_parameter");
    let (output, _server) = run(vec![refused], &["links", "qr", ID, "--out", out]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    // An answer that is no image is not of this API.
    let (output, _server) = run(
        vec![Reply::json(200, &json!({}))],
        &["links", "qr", ID, "--out", out],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!file.exists());
    for arguments in [
        &["--size", "64"][..],
        &["--out", out, "--size", "63"],
        &["--out", out, "--color", "red"],
        &["--ecc", "X"],
        &["--out", "code.gif"],
    ] {
        let arguments = [&["links", "qr", ID], arguments].concat();
        let (output, _server) = run(Vec::new(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
