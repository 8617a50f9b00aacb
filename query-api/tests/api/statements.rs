//! There is no row-level security: each statement restricts its rows to the account. So every statement behind the API that
//! reads or changes a table with rows of accounts has a condition on the account, or is listed here with a reason.

use std::{collections::BTreeSet, fs, path::Path};

use linkledger_testing::TestDatabase;

/// Files with the statements that the services run for clients.
const SOURCES: [&str; 16] = [
    "query-api/src",
    "command-api/src/command_handler",
    "command-api/src/command_handler.rs",
    "command-api/src/routes",
    "core/http/src",
    "core/event-store/src/accounts.rs",
    "core/event-store/src/api_keys.rs",
    "core/event-store/src/append.rs",
    "core/event-store/src/external_ids.rs",
    "core/event-store/src/idempotency.rs",
    "core/event-store/src/link_expiries.rs",
    "core/event-store/src/links.rs",
    "core/event-store/src/log/feed.rs",
    "core/event-store/src/log/links.rs",
    "core/event-store/src/slugs.rs",
    "core/event-store/src/webhooks/rows.rs",
];

/// Functions whose statements have no condition on the account, each with the reason.
#[rustfmt::skip]
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("api_keys::find_each", "event_store.accounts", "who calls is what the key tells"),
    ("api_keys::find_each", "event_store.api_keys", "who calls is what the key tells"),
    ("api_keys::record_uses", "event_store.api_keys", "of keys that were just used, by their ids"),
    ("api_keys::get", "event_store.api_keys", "for operators"),
    ("api_keys::get_in_tx", "event_store.api_keys", "for operators, of a key whose account they have locked"),
    ("api_keys::read_each", "event_store.api_keys", "for operators: an audit of all keys"),
    ("accounts::find_by_creation_key_in_tx", "event_store.accounts", "for operators: which account a request has created"),
    ("accounts::find_by_external_id", "event_store.accounts", "for operators: which account it is"),
    ("accounts::list", "event_store.accounts", "for operators: all accounts"),
    ("accounts::read_after", "event_store.accounts", "for operators: an audit of all accounts"),
    ("external_ids::read_all", "event_store.external_ids", "for operators: an audit of all external ids"),
    ("feed::read_page", "event_store.events", "the account's own stream, and events whose account the query around compares"),
    ("feed::end_place", "event_store.events", "the end of the account's own stream"),
    ("feed::place_at", "event_store.events", "times of the shard, and the account's own stream"),
    ("feed::place_after", "event_store.events", "the account's own stream"),
    ("feed::positions_at", "event_store.events", "for operators: times of all shards"),
    ("feed::accounts_between", "event_store.events", "whose requests need not wait longer; nobody sees it"),
    ("link_expiries::write_in_tx", "event_store.link_expiries", "of links with events, whose accounts are locked"),
    ("link_expiries::read_all", "event_store.link_expiries", "for operators: an audit of all expiries"),
    ("links::find_owner", "event_store.events", "for operators: whose link it is"),
    ("links::last_link_events", "event_store.events", "one event; the query around it drops those of other accounts"),
    ("links::link_beginnings", "event_store.events", "for operators: why a row is as it is"),
    ("idempotency::find_creates_in_tx", "event_store.events", "the charge right after the link that was asked for by the account"),
    ("links::link_extents", "event_store.events", "the end of the stream whose beginning is asked for by the account"),
    ("slugs::find_holders", "event_store.events", "who follows a link has no account"),
    ("rows::delete_in_tx", "event_store.webhooks", "of a webhook that was read, whose account is locked"),
    ("rows::enabled", "event_store.webhooks", "for the dispatcher: all webhooks"),
    ("rows::get", "event_store.webhooks", "whose account the caller compares"),
    ("rows::get_in_tx", "event_store.webhooks", "whose account the caller compares"),
    ("rows::list_of_operators", "event_store.webhooks", "for operators: their own webhooks"),
    ("rows::read_each", "event_store.webhooks", "for operators: an audit of all webhooks"),
    ("redirects::find_each", "read_model.redirects", "who follows a link has no account"),
    ("redirects::find_each", "read_model.stopped_accounts", "whether the owner of the link that is followed is stopped"),
    ("redirects::changes_after", "read_model.redirect_changes", "what caches of all accounts forget"),
];

/// Returns the statements of a file, each with the name of its function.
fn statements(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut function = "";
    let beginnings = [
        "fn ",
        "query!(",
        "query_as!(",
        "query_scalar!(",
        "query_events!(",
        "query_link_arrays!(",
        "query_webhooks!(",
        "page_of_links!(",
        "page_of_rows!(",
    ];
    while let Some(start) = next_of(rest, &beginnings) {
        rest = &rest[start..];
        if let Some(named) = rest.strip_prefix("fn ") {
            function = named.split(['(', '<']).next().unwrap();
            rest = named;
            continue;
        }
        let (statement, behind) = parts_of_statement(rest);
        found.push((function.to_owned(), normal(&statement)));
        rest = behind;
    }
    found
}

/// Returns the first statement of the text, whose parts are texts and parameters of a macro, and the text behind.
fn parts_of_statement(mut rest: &str) -> (String, &str) {
    let mut statement = String::new();
    loop {
        let opening = rest.find('"').expect("a macro has its statement");
        let closing = if rest[..opening].ends_with('#') {
            "\"#"
        } else {
            "\""
        };
        let text = &rest[opening + 1..];
        let end = text.find(closing).unwrap();
        statement.push_str(&text[..end]);
        rest = &text[end + closing.len()..];
        // Behind a part follows another part, perhaps in brackets, or an argument.
        let next = rest.trim_start_matches(['+', ',', ' ', '\n', '[', ']']);
        let next = match next.strip_prefix("$($") {
            Some(parameter) => {
                let end = parameter.find('+').expect("a repetition");
                parameter[end..].trim_start_matches(['+', ' ', '\n'])
            }
            None => next,
        };
        if !next.starts_with('"') && !next.starts_with("r#\"") {
            return (statement, rest);
        }
        rest = next;
    }
}

fn next_of(text: &str, patterns: &[&str]) -> Option<usize> {
    patterns.iter().filter_map(|it| text.find(it)).min()
}

/// Removes comments, line breaks and repeated spaces.
fn normal(statement: &str) -> String {
    let lines = statement
        .lines()
        .map(|line| line.split("--").next().unwrap());
    let words = lines.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the statement and its subqueries, each without the subqueries inside.
fn queries(statement: &str) -> Vec<String> {
    let mut open = vec![String::new()];
    let mut done = Vec::new();
    for letter in statement.chars() {
        match letter {
            '(' => open.push(String::new()),
            ')' => {
                let inner = open.pop().expect("parentheses are paired");
                let outer = open.last_mut().expect("parentheses are paired");
                if ["event_store.", "read_model.", "clicks."]
                    .iter()
                    .any(|schema| inner.contains(schema))
                {
                    done.push(inner);
                    outer.push_str("(…)");
                } else {
                    outer.extend(["(", &inner, ")"]);
                }
            }
            letter => open.last_mut().unwrap().push(letter),
        }
    }
    done.extend(open);
    done
}

/// Returns the tables that a query reads or changes. An inserted row has the account among its values.
fn tables(query: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = query.split([' ', ',', '(']).collect();
    let pairs = words
        .windows(2)
        .map(|it| (it[0], it[1]))
        .collect::<Vec<_>>();
    pairs.into_iter().filter_map(|(verb, table)| {
        let is_read = matches!(verb, "FROM" | "JOIN" | "UPDATE");
        (is_read && table.contains('.')).then_some(table)
    })
}

/// Returns the number of conditions on an account in a query.
fn conditions(query: &str, statement: &str) -> usize {
    let equal = query.split("account_id = ").skip(1).filter(|value| {
        let is_given = value.starts_with('$') || value.starts_with("ANY($");
        is_given || is_column_of_given_accounts(value, statement)
    });
    equal.count()
        + query.matches("account_id IS NOT DISTINCT FROM $").count()
        + query.matches("USING (account_id)").count()
        + query.matches("USING (shard, account_id, ").count()
}

/// Returns true if the column belongs to a table that the statement makes from parameters only.
fn is_column_of_given_accounts(value: &str, statement: &str) -> bool {
    let column = value.split([' ', ')']).next().unwrap();
    let Some(table) = column.strip_suffix(".account_id") else {
        return false;
    };
    let (before, columns) = statement
        .split_once(&format!(" AS {table} ("))
        .unwrap_or_default();
    let (_, arrays) = before.rsplit_once("unnest(").unwrap_or_default();
    let columns = columns.split(')').next().unwrap_or_default();
    arrays.starts_with('$')
        && !arrays.contains("SELECT")
        && columns.split(", ").any(|it| it == "account_id")
}

/// Returns names and contents of all files in a folder.
fn files(path: &Path, found: &mut Vec<(String, String)>) {
    if path.is_file() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        found.push((name.to_owned(), fs::read_to_string(path).unwrap()));
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        files(&entry.unwrap().path(), found);
    }
}

#[tokio::test]
async fn every_statement_filters_by_account() {
    let database = TestDatabase::create().await;
    let of_accounts: Vec<String> = sqlx::query_scalar(
        "SELECT table_schema || '.' || table_name FROM information_schema.columns
         WHERE column_name = 'account_id' AND table_schema IN ('event_store', 'read_model', 'clicks')",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    let is_of_accounts = |table: &str| of_accounts.iter().any(|it| it == table);
    let mut sources = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for source in SOURCES {
        files(&root.join(source), &mut sources);
    }

    let mut without = BTreeSet::new();
    let mut asking = 0;
    for (file, source) in &sources {
        for (function, statement) in statements(source) {
            for query in queries(&statement) {
                let tables = tables(&query);
                let tables: Vec<&str> = tables.filter(|it| is_of_accounts(it)).collect();
                if conditions(&query, &statement) >= tables.len() {
                    asking += tables.len();
                } else {
                    let place = format!("{file}::{function}");
                    without.extend(tables.iter().map(|it| (place.clone(), (*it).to_owned())));
                }
            }
        }
    }
    assert!(
        asking > 15,
        "{asking} tables are asked for an account's rows"
    );
    let argued = EXCEPTIONS.iter();
    let argued = argued.map(|(place, table, _)| ((*place).to_owned(), (*table).to_owned()));
    assert_eq!(without, argued.collect());
}
