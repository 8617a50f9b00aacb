//! Formats the fields of spans for JSON log lines: written once, in order, at the start of a
//! request.
//!
//! The library's formatter would sort the fields, and parse and write all of them again for each
//! added field.

use std::{
    fmt::{self, Debug},
    mem,
};

use serde_json::Value;
use tracing::{
    field::{Field, Visit},
    span::Record,
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, FormattedFields, format::Writer},
};

/// Initial capacity for the fields of a request, in bytes.
const FIELDS_LENGTH: usize = 384;

/// Formats the fields as a JSON object.
pub(super) struct JsonSpanFields;

impl<'writer> FormatFields<'writer> for JsonSpanFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut members = Members(String::with_capacity(FIELDS_LENGTH));
        fields.record(&mut members);
        writer.write_str(&members.into_object())
    }

    fn add_fields(
        &self,
        current: &'writer mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        let mut members = Members(mem::take(&mut current.fields));
        members.0.pop();
        fields.record(&mut members);
        current.fields = members.into_object();
        Ok(())
    }
}

/// A JSON object without its closing brace, or an empty text.
struct Members(String);

impl Members {
    fn into_object(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0
    }

    /// Writes the name of a member. Field names are identifiers and need no escaping.
    fn begin(&mut self, field: &Field) {
        self.0.push_str(match self.0.as_str() {
            "" => "{\"",
            "{" => "\"",
            _ => ",\"",
        });
        self.0.push_str(field.name());
        self.0.push_str("\":");
    }

    fn write(&mut self, field: &Field, value: impl Into<Value>) {
        self.begin(field);
        self.0.push_str(&value.into().to_string());
    }
}

/// Returns true for name and kind of an exported span, which repeat other fields.
fn is_of_export(field: &Field) -> bool {
    field.name().starts_with("otel.")
}

impl Visit for Members {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.write(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if is_of_export(field) {
            return;
        }
        let is_special = |byte| byte < b' ' || matches!(byte, b'"' | b'\\');
        if value.bytes().any(is_special) {
            return self.write(field, value);
        }
        self.begin(field);
        self.0.push('"');
        self.0.push_str(value);
        self.0.push('"');
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if is_of_export(field) {
            return;
        }
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing_subscriber::{Registry, fmt, layer::SubscriberExt as _};

    use super::*;

    /// Returns the span of a line that is logged within a span with these fields.
    fn logged(write: impl FnOnce()) -> Value {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&lines);
        let layer = fmt::layer::<Registry>()
            .json()
            .with_writer(move || Sink(Arc::clone(&copy)));
        let subscriber = tracing_subscriber::registry().with(layer.fmt_fields(JsonSpanFields));
        tracing::subscriber::with_default(subscriber, write);
        let line: Value = serde_json::from_slice(&lines.lock().unwrap()).unwrap();
        line["span"].clone()
    }

    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_value_type_round_trips_but_fields_of_export() {
        let span = logged(|| {
            let span = tracing::info_span!(
                "request",
                otel.name = %"GET /v1/links",
                otel.kind = "server",
                text = "a \"quoted\" line\n\\ \u{e9}\u{1}",
                shown = %format_args!("{}-{}", 1, '"'),
                negative = -7,
                large = u64::MAX,
                is_so = true,
                share = 0.5,
                none = f64::NAN,
                later = tracing::field::Empty,
            );
            span.record("later", "x\ty");
            span.in_scope(|| tracing::info!("said"));
        });
        let expected = json!({
            "name": "request", "text": "a \"quoted\" line\n\\ \u{e9}\u{1}", "shown": "1-\"",
            "negative": -7, "large": u64::MAX, "is_so": true, "share": 0.5, "none": null,
            "later": "x\ty",
        });
        assert_eq!(span, expected);
    }

    #[test]
    fn span_fields_may_come_late() {
        let span = logged(|| tracing::info_span!("bare").in_scope(|| tracing::info!("said")));
        assert_eq!(span, json!({ "name": "bare" }));
        let span = logged(|| {
            let span = tracing::info_span!("late", first = tracing::field::Empty);
            span.record("first", 1);
            span.in_scope(|| tracing::info!("said"));
        });
        assert_eq!(span, json!({ "name": "late", "first": 1 }));
    }
}
