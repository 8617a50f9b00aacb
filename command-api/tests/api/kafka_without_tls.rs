//! A build without TLS for Kafka rejects settings that need TLS.

use std::process::Command;

#[test]
fn build_without_tls_rejects_tls_settings() {
    let database = ["--database-url", "postgres://127.0.0.1:1/nowhere"];
    let serve = ["serve", "--base-url", "http://127.0.0.1:8080"];
    let listen = [
        "--api-listen",
        "127.0.0.1:0",
        "--internal-listen",
        "127.0.0.1:0",
    ];
    let serve = [&serve[..], &database, &listen].concat();
    for arguments in [&serve[..], &["topic", "check"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_command-api"))
            .args(arguments)
            .args(["--kafka-brokers", "127.0.0.1:1"])
            .args(["--kafka-security-protocol", "ssl"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = "error: this build has neither TLS nor SCRAM for Kafka, which \
                        --kafka-security-protocol ssl needs: build with --features tls";
        let last = stderr.lines().last();
        assert_eq!(last, Some(expected), "{stderr}");
    }
}
