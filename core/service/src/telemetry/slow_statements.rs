//! Log lines about slow statements: one for each statement and minute, with the beginning of the SQL.
//!
//! sqlx logs each slow statement with its whole SQL, so a slow database would fill the log.

use std::{
    collections::HashMap,
    fmt::{self, Debug},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Value, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// Target of the events that sqlx logs about statements.
const TARGET: &str = "sqlx::query";
/// Fields of these events. Only an event about a slow statement has a threshold.
const THRESHOLD: &str = "slow_threshold";
const STATEMENT: &str = "db.statement";
const SUMMARY: &str = "summary";
const ELAPSED: &str = "elapsed";
const MESSAGE: &str = "message";

/// Maximum number of characters of a statement in a log line.
const STATEMENT_LENGTH_MAX: usize = 200;
/// Time without a second line about the same statement.
const INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of statements with a line in an interval; further statements are not logged.
const STATEMENTS_MAX: usize = 256;

/// Formats events as `format` does, but shortens and limits those about slow statements.
pub(super) struct SlowStatements<F> {
    format: F,
    lines: Lines,
}

impl<F> SlowStatements<F> {
    pub(super) fn new(format: F) -> Self {
        Self {
            format,
            lines: Lines::default(),
        }
    }
}

impl<S, N, F> FormatEvent<S, N> for SlowStatements<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let fields = metadata.fields();
        let names = [MESSAGE, STATEMENT, ELAPSED, THRESHOLD].map(|name| fields.field(name));
        let [Some(message), Some(statement), Some(elapsed), Some(_)] = &names else {
            return self.format.format_event(context, writer, event);
        };
        if metadata.target() != TARGET {
            return self.format.format_event(context, writer, event);
        }
        let mut slow = SlowStatement::default();
        event.record(&mut slow);
        if !self.lines.is_due(slow.sql(), Instant::now()) {
            return Ok(());
        }
        let beginning = beginning(slow.sql());
        let values: [(&Field, Option<&dyn Value>); 3] = [
            (message, Some(&"slow statement")),
            (statement, Some(&beginning)),
            (elapsed, Some(&slow.elapsed)),
        ];
        let values = fields.value_set(&values);
        let event = Event::new(metadata, &values);
        self.format.format_event(context, writer, &event)
    }
}

/// Fields of an event about a slow statement.
#[derive(Default)]
struct SlowStatement {
    /// Whole statement; empty if the summary is the whole statement.
    statement: String,
    summary: String,
    elapsed: String,
}

impl SlowStatement {
    fn sql(&self) -> &str {
        if self.statement.is_empty() {
            &self.summary
        } else {
            &self.statement
        }
    }
}

impl Visit for SlowStatement {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            STATEMENT => value.clone_into(&mut self.statement),
            SUMMARY => value.clone_into(&mut self.summary),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == ELAPSED {
            self.elapsed = format!("{value:?}");
        }
    }
}

/// Returns the beginning of a statement on one line, with an ellipsis if the statement is longer.
fn beginning(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(STATEMENT_LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Time of the last line about each statement, by the hash of the SQL.
#[derive(Default)]
struct Lines(Mutex<HashMap<u64, Instant>>);

impl Lines {
    /// Returns true if a line about the statement is due, and records the line.
    fn is_due(&self, sql: &str, now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|_, logged| now.saturating_duration_since(*logged) < INTERVAL);
        let key = hasher.finish();
        if lines.len() >= STATEMENTS_MAX || lines.contains_key(&key) {
            return false;
        }
        lines.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statement_is_cut_to_one_line() {
        assert_eq!(beginning("\n\n  SELECT 1\n FROM t\n"), "SELECT 1 FROM t");
        let long = "é".repeat(STATEMENT_LENGTH_MAX);
        assert_eq!(beginning(&long), long);
        assert_eq!(beginning(&format!("{long}x")), format!("{long}…"));
    }

    #[test]
    fn statement_has_one_line_per_minute() {
        let lines = Lines::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(lines.is_due("SELECT 1", at(0)));
        assert!(lines.is_due("SELECT 2", at(1)));
        assert!(!lines.is_due("SELECT 1", at(59)));
        assert!(lines.is_due("SELECT 1", at(60)));
        assert!(!lines.is_due("SELECT 2", at(60)));
    }

    #[test]
    fn number_of_statements_is_bounded() {
        let lines = Lines::default();
        let now = Instant::now();
        let due = (0..2 * STATEMENTS_MAX).filter(|n| lines.is_due(&n.to_string(), now));
        assert_eq!(due.count(), STATEMENTS_MAX);
        assert!(lines.is_due("later", now + INTERVAL));
    }
}
