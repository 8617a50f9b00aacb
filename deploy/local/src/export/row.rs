//! The lines of an export: a link as JSON or as cells of CSV. No I/O.

use std::borrow::Cow;

use linkledger_core::csv_cell::guarded;
use serde::{Deserialize, Serialize};

use super::ExportFormat;
use crate::import::{link::LinkDetails, slug_of_export};

/// Columns of a link in CSV; those of clicks follow.
const COLUMNS: [&str; 11] = [
    "id",
    "short_url",
    "slug",
    "destination_url",
    "title",
    "tags",
    "external_id",
    "expires_at",
    "expired_url",
    "created_at",
    "disabled_by",
];
const CLICK_COLUMNS: [&str; 3] = ["clicks", "bots", "visitors"];
/// Position of the creation in [`COLUMNS`].
const CREATED_AT: usize = 9;

/// A link as the API lists it.
#[derive(Debug, Deserialize)]
pub(super) struct ExportedLink {
    pub(super) id: String,
    short_url: String,
    destination_url: String,
    pub(super) created_at: String,
    #[serde(flatten)]
    details: LinkDetails,
    disabled_by: Option<String>,
}

/// Clicks of a link since its creation.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct LinkClicks {
    clicks: u64,
    bots: u64,
    visitors: u64,
}

/// Place of a line in the order of an export: id and creation of its link.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct LinePlace {
    pub(super) id: String,
    pub(super) created_at: String,
}

impl ExportFormat {
    /// Returns the first line of a file; empty if the format has none.
    pub(super) fn header(self, with_clicks: bool) -> String {
        let clicks = if with_clicks { &CLICK_COLUMNS[..] } else { &[] };
        match self {
            Self::Ndjson => String::new(),
            Self::Csv => format!("{}\n", [&COLUMNS[..], clicks].concat().join(",")),
        }
    }

    /// Returns the line of a link. `raw` is the link as the API sent it.
    pub(super) fn line(
        self,
        raw: &str,
        link: &ExportedLink,
        clicks: Option<LinkClicks>,
    ) -> anyhow::Result<String> {
        match self {
            Self::Ndjson => json_line(raw, clicks),
            Self::Csv => csv_line(link, clicks),
        }
    }

    /// Reads the place of a whole line; `None` if the line is not one of an export.
    pub(super) fn place(self, line: &str) -> Option<LinePlace> {
        match self {
            Self::Ndjson => serde_json::from_str(line).ok(),
            Self::Csv => {
                let mut reader = csv::ReaderBuilder::new()
                    .has_headers(false)
                    .from_reader(line.as_bytes());
                let cells = reader.records().next()?.ok()?;
                let place = LinePlace {
                    id: cells.get(0)?.to_owned(),
                    created_at: cells.get(CREATED_AT)?.to_owned(),
                };
                place.id.starts_with("lnk_").then_some(place)
            }
        }
    }
}

/// Returns the JSON of a link on one line, with the clicks as its last member.
fn json_line(raw: &str, clicks: Option<LinkClicks>) -> anyhow::Result<String> {
    // In JSON a line break stands between the members only.
    let raw = raw.replace(['\r', '\n'], " ");
    let Some(clicks) = clicks else {
        return Ok(format!("{raw}\n"));
    };
    let raw = raw.trim_end();
    let members = raw.strip_suffix('}').unwrap_or(raw);
    let clicks = serde_json::to_string(&clicks)?;
    Ok(format!("{members},\"clicks\":{clicks}}}\n"))
}

fn csv_line(link: &ExportedLink, clicks: Option<LinkClicks>) -> anyhow::Result<String> {
    let details = &link.details;
    let text = |member: &Option<String>| member.clone().unwrap_or_default();
    let mut cells = vec![
        link.id.clone(),
        link.short_url.clone(),
        slug_of_export(&link.short_url)
            .unwrap_or_default()
            .to_owned(),
        link.destination_url.clone(),
        text(&details.title),
        details.tags.join(","),
        text(&details.external_id),
        text(&details.expires_at),
        text(&details.expired_url),
        link.created_at.clone(),
        text(&link.disabled_by),
    ];
    if let Some(LinkClicks {
        clicks,
        bots,
        visitors,
    }) = clicks
    {
        cells.extend([clicks, bots, visitors].map(|count| count.to_string()));
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cells: Vec<Cow<'_, str>> = cells.iter().map(|cell| guarded(cell)).collect();
    writer.write_record(cells.iter().map(AsRef::as_ref))?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = "{\"id\":\"lnk_1\",\"short_url\":\"http://s.test/Spring\",\
        \"destination_url\":\"https://example.com/?a,b\",\"created_at\":\"2026-11-20T09:51:00.123Z\",\
        \"title\":\"=1+1, \\\"quoted\\\"\",\"tags\":[\"a\",\"b\"]}";
    const CLICKS: LinkClicks = LinkClicks {
        clicks: 3,
        bots: 2,
        visitors: 1,
    };

    fn line(format: ExportFormat, clicks: Option<LinkClicks>) -> String {
        format
            .line(RAW, &serde_json::from_str(RAW).unwrap(), clicks)
            .unwrap()
    }

    #[test]
    fn json_line_is_the_link_of_the_api() {
        assert_eq!(line(ExportFormat::Ndjson, None), format!("{RAW}\n"));
        let with_clicks = line(ExportFormat::Ndjson, Some(CLICKS));
        let value: serde_json::Value = serde_json::from_str(&with_clicks).unwrap();
        assert_eq!(value["clicks"]["visitors"], 1);
        assert_eq!(with_clicks.lines().count(), 1);
        let nested = json_line("{\"id\":\"lnk_1\",\"x\":{\"y\":{}}}", Some(CLICKS)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&nested).unwrap();
        assert_eq!(value["clicks"]["bots"], 2);
    }

    #[test]
    fn csv_line_guards_formulas() {
        assert_eq!(
            line(ExportFormat::Csv, Some(CLICKS)),
            "lnk_1,http://s.test/Spring,Spring,\"https://example.com/?a,b\",\
             \"'=1+1, \"\"quoted\"\"\",\"a,b\",,,,2026-11-20T09:51:00.123Z,,3,2,1\n"
        );
        let columns = ExportFormat::Csv.header(true).split(',').count();
        assert_eq!(columns, COLUMNS.len() + CLICK_COLUMNS.len());
        assert_eq!(COLUMNS[CREATED_AT], "created_at");
    }

    #[test]
    fn place_is_read_from_a_whole_line_only() {
        let place = LinePlace {
            id: "lnk_1".to_owned(),
            created_at: "2026-11-20T09:51:00.123Z".to_owned(),
        };
        for format in [ExportFormat::Ndjson, ExportFormat::Csv] {
            for clicks in [None, Some(CLICKS)] {
                let line = line(format, clicks);
                assert_eq!(format.place(line.trim_end()), Some(place.clone()));
            }
            assert_eq!(format.place(&line(format, None)[..40]), None);
            assert_eq!(format.place(format.header(false).trim_end()), None);
        }
    }
}
