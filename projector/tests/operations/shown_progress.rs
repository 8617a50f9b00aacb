//! Progress lines of an operator's command without a terminal.

use serde_json::Value;

use crate::{fixture::Fixture, process};

#[tokio::test]
async fn the_last_phase_ends_with_all_that_was_to_be_done() {
    let fixture = Fixture::new().await;
    fixture.account_with_links("told", 2).await;
    fixture.apply_log().await;
    for (arguments, ends) in [
        (vec!["verify"], "verifying redirects: 5 of 5 events in "),
        (vec!["verify", "--json"], "verifying redirects"),
    ] {
        let is_json = arguments.contains(&"--json");
        let output = process::run(&fixture.database, &arguments).await;
        let text = String::from_utf8(output.stderr).unwrap();
        let last = text.lines().last().unwrap();
        if is_json {
            let line: Value = serde_json::from_str(last).unwrap();
            assert_eq!(line["phase"], ends);
            assert_eq!((&line["done"], &line["total"]), (&5.into(), &5.into()));
        } else {
            assert!(last.starts_with(ends), "{text}");
        }
    }
}
