//! Shlink: the answer of `GET /rest/v3/short-urls`, or the CSV that its web client exports.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    RawRecord, SourceError, SourceFormat, SourceLinks,
    json_record::{JsonMembers, JsonRecord, MemberFault, documents, number},
    list_of_cell,
    table::CsvTable,
};

const MEMBERS: JsonMembers = JsonMembers {
    texts: ["shortUrl", "longUrl"],
    not_imported: &[
        ("meta.validSince", "begin of validity"),
        ("meta.maxVisits", "maximum of visits"),
        ("crawlable", "permission for crawlers"),
        ("forwardQuery", "forwarding of the query"),
        ("hasRedirectRules", "redirect rules"),
        ("deviceLongUrls", "destinations of devices"),
        ("visitsCount", VISITS),
        ("visitsSummary.total", VISITS),
    ],
    known: &["dateCreated", "domain", "shortCode", "tags", "title"],
};
/// Name of the visits in the report; Shlink has several members for them.
const VISITS: &str = "visits";

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow, rename = "shortUrls")]
    short_urls: Page<'t>,
}

#[derive(Deserialize)]
struct Page<'t> {
    #[serde(borrow)]
    data: Vec<&'t RawValue>,
    pagination: Option<Pagination>,
}

#[derive(Deserialize)]
struct Pagination {
    #[serde(rename = "totalItems")]
    total_items: Option<Value>,
}

/// Returns true for the columns that the web client exports.
pub(super) fn has_columns_of_format(table: &CsvTable<'_>) -> bool {
    table.has(&["shortCode"]) && table.has(&["longUrl"])
}

pub(super) fn parse(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let is_csv = !text.trim_start().starts_with(['{', '[', '<']);
    if is_csv {
        parse_csv(text, links)
    } else {
        parse_json(text, links)
    }
}

fn parse_csv(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let mut table = CsvTable::open(text)?;
    SourceFormat::Shlink.check_columns(&table)?;
    links.untold = Some(
        "validity, maximum of visits and redirect rules, as Shlink's CSV always does: if links have them, import the \
         JSON of GET /rest/v3/short-urls",
    );
    let columns = ["shortCode", "shortUrl", "longUrl", "title", "tags"];
    let columns = columns.map(|name| table.column(&[name]));
    let [code, address, destination, title, tags] = columns;
    let created = table.ignored_column(&["createdAt"]);
    let lost = table.left_columns(&[(&[VISITS], VISITS)], &["createdAt", "domain"]);
    while let Some(row) = table.next_row()? {
        let record = RawRecord {
            slug: row.owned(code),
            short_url: row.owned(address),
            needs_slug: true,
            destination_url: row.owned(destination).unwrap_or_default(),
            title: row.owned(title),
            tags: list_of_cell(row.cell(tags), '|'),
            created_at: row.owned(created),
            ..RawRecord::default()
        };
        links.add_row(&row, &lost, record);
    }
    Ok(())
}

fn parse_json(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let mut total = 0;
    for Document { short_urls: page } in documents(text, SourceFormat::Shlink)? {
        let announced = page.pagination.and_then(|pages| pages.total_items);
        total = number(announced.as_ref()).unwrap_or(total);
        for raw in page.data {
            links.add_json(raw, &MEMBERS, record);
        }
    }
    links.announce(total);
    Ok(())
}

fn record(json: &JsonRecord) -> Result<RawRecord, MemberFault> {
    let mut changes = Vec::new();
    let short_url = json.text("shortUrl")?;
    let slug = json.text("shortCode")?;
    if slug.is_none() && short_url.is_none() {
        return Err(MemberFault::missing("shortCode"));
    }
    Ok(RawRecord {
        slug,
        short_url,
        needs_slug: true,
        destination_url: json.required_text("longUrl")?,
        title: json.label("title", "title", &mut changes),
        tags: json.labels("tags", &mut changes),
        expires_at: json.text("meta.validUntil")?,
        created_at: json.label("dateCreated", "creation date", &mut changes),
        changes,
        ..RawRecord::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::formats::tests::{change_lines, parsed};

    const FIXTURE: &str = include_str!("../../../tests/data/import/shlink.json");
    const CSV: &str = include_str!("../../../tests/data/import/shlink.csv");

    #[test]
    fn shlink_links_carry_slug_title_tags_and_expiry() {
        let parsed = parsed(SourceFormat::Shlink, FIXTURE);
        let [first, second, third] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(first.link.slug.as_deref(), Some("12C18"));
        assert_eq!(first.link.destination_url, "https://store.steampowered.com");
        assert_eq!(first.link.details.tags, ["games", "tech"]);
        assert_eq!(first.link.details.expires_at, None);
        assert_eq!(second.link.details.title.as_deref(), Some("Spring sale"));
        assert_eq!(second.link.details.tags, ["spring sale", "größe"]);
        assert_eq!(
            second.link.details.expires_at.as_deref(),
            Some("2030-01-21T00:00:00+02:00")
        );
        assert_eq!(
            third.refusal.as_ref().unwrap().code,
            "slug_invalid_character"
        );
        assert_eq!(
            third.old_address.as_deref(),
            Some("https://s.test/sub/path")
        );
        assert_eq!(parsed.announced, Some(12));
        let lines = change_lines(first);
        for line in [
            "not carried over: begin of validity 2017-01-21T00:00:00+02:00",
            "not carried over: maximum of visits 100",
            "not carried over: domain s.test",
            "not carried over: visits 328",
            "not carried over: creation date 2016-08-21T20:34:16+02:00",
        ] {
            assert!(lines.contains(&line.to_owned()), "{lines:?}");
        }
    }

    #[test]
    fn csv_of_the_web_client_has_tags_between_bars() {
        for format in [SourceFormat::Shlink, SourceFormat::detect(CSV).unwrap()] {
            let parsed = parsed(format, CSV);
            let [first, second] = &parsed.links[..] else {
                panic!("{parsed:?}")
            };
            assert_eq!(first.link.slug.as_deref(), Some("9r2TW"));
            assert_eq!(first.link.details.tags, ["news", "summer sale"]);
            assert_eq!(
                first.link.details.title.as_deref(),
                Some("A title, with comma")
            );
            let lines = change_lines(first);
            for line in [
                "not carried over: visits 61",
                "not carried over: domain my.test",
            ] {
                assert!(lines.contains(&line.to_owned()), "{lines:?}");
            }
            assert_eq!(
                second.refusal.as_ref().unwrap().code,
                "slug_invalid_character"
            );
        }
    }

    #[test]
    fn address_in_a_folder_is_not_shortened_to_its_code() {
        let record = "{\"shortCode\":\"abc\",\"shortUrl\":\"https://e.test/s/abc\",\"longUrl\":\"https://a.example\"}";
        let text = format!("{{\"shortUrls\":{{\"data\":[{record}]}}}}");
        let refusal = parsed(SourceFormat::Shlink, &text).links.remove(0).refusal;
        assert_eq!(refusal.unwrap().code, "slug_invalid_character");
    }

    #[test]
    fn shlink_pages_follow_each_other() {
        let pages = format!("{FIXTURE}\n{FIXTURE}");
        let twice = parsed(SourceFormat::Shlink, &pages);
        assert_eq!(twice.links.len(), 6);
        assert_eq!(twice.links.last().unwrap().number, twice.links.len());
        assert_eq!(twice.announced, Some(12));
        let text = FIXTURE.replace("\"totalItems\": 12", "\"totalItems\": \"4\"");
        assert_eq!(parsed(SourceFormat::Shlink, &text).announced, Some(4));
        assert_eq!(
            parsed(SourceFormat::Shlink, &format!("{text}{text}")).announced,
            Some(4)
        );
        assert!(
            twice.links[3]
                .repeat
                .as_ref()
                .unwrap()
                .refusal
                .detail
                .starts_with("link 1 of the file is the same link")
        );
    }

    #[test]
    fn bad_record_is_refused_alone() {
        for (record, expected) in [
            (
                "{\"shortCode\":\"a\"}",
                "The member longUrl is missing or empty.",
            ),
            (
                "{\"longUrl\":[1],\"shortCode\":\"a\"}",
                "The member longUrl is not a text.",
            ),
            (
                "{\"longUrl\":\"https://a.e\"}",
                "The member shortCode is missing or empty.",
            ),
            ("7", "The record is no JSON object."),
        ] {
            let good = "{\"longUrl\":\"https://a.e\",\"shortCode\":\"b\",\"tags\":[1,{},\"x\"]}";
            let text = format!("{{\"shortUrls\":{{\"data\":[{record},{good}]}}}}");
            let parsed = parsed(SourceFormat::Shlink, &text);
            assert_eq!(parsed.links[0].refusal.as_ref().unwrap().detail, expected);
            assert_eq!(parsed.links[1].refusal, None);
            assert_eq!(parsed.links[1].link.details.tags, ["1", "x"]);
        }
    }

    #[test]
    fn further_members_with_a_value_are_reported() {
        let nothing = "\"a\":null,\"b\":false,\"c\":\"\",\"d\":[],\"e\":{}";
        let devices = "\"deviceLongUrls\":{\"android\":\"https://a.e/app\",\"ios\":null}";
        let visits = "\"visitsCount\":3,\"visitsSummary\":{\"total\":3,\"bots\":1}";
        let link = "\"longUrl\":\"https://a.e\",\"shortCode\":\"b\"";
        let changes = |members: &str| {
            let text = format!("{{\"shortUrls\":{{\"data\":[{{{link},{members}}}]}}}}");
            change_lines(&parsed(SourceFormat::Shlink, &text).links[0])
        };
        assert_eq!(changes(nothing), [""; 0]);
        assert_eq!(changes("\"deviceLongUrls\":{\"android\":null}"), [""; 0]);
        assert_eq!(
            changes(&format!("{devices},{visits},\"colour\":\"red\"")),
            [
                "not carried over: destinations of devices {\"android\":\"https://a.e/app\",\"ios\":null}",
                "not carried over: visits 3",
                "not carried over: colour red",
            ]
        );
    }
}
