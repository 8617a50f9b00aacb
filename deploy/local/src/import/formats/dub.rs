//! Dub: the CSV that the page of links exports, with the columns that were chosen there.

use super::{RawRecord, SourceError, SourceFormat, SourceLinks, list_of_cell, table::CsvTable};

/// Columns without a counterpart, and their names in the report.
const NOT_IMPORTED: [(&[&str], &str); 9] = [
    (&["clicks"], "clicks"),
    (&["leads"], "leads"),
    (&["conversions"], "conversions"),
    (&["sales"], "sales"),
    (&["sale amount", "sales amount"], "sales amount"),
    (&["description"], "description"),
    (&["archived"], "archived"),
    (&["folder", "folder id"], "folder"),
    (&["id", "link id"], "id"),
];

/// Columns that repeat others, or that mean nothing without the product.
const IGNORED: [&str; 5] = [CREATED_AT, "updated_at", "domain", "key", "slug"];
const CREATED_AT: &str = "created_at";
const SHORT_LINK: &str = "short_link";
const URL: &str = "url";
/// Columns of the format, for an error.
pub(super) const EXPECTED: &str = "the columns \"Short link\" and \"Destination URL\"";

/// Returns true for the columns of an export, also by their names in earlier exports, `link` and `url`.
pub(super) fn has_columns_of_format(table: &CsvTable<'_>) -> bool {
    let has = |name: &str| table.has(&[name]);
    has(SHORT_LINK) && (has("destination_url") || has(URL)) || has("link") && has(URL)
}

pub(super) fn parse(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let mut table = CsvTable::open(text)?;
    SourceFormat::Dub.check_columns(&table)?;
    let link = table.column(&[SHORT_LINK, "link"]);
    let destination = table.column(&["destination_url", URL]);
    let title = table.column(&["title"]);
    let tags = table.column(&["tags"]);
    let created = table.ignored_column(&[CREATED_AT]);
    let expires = table.column(&["expires_at", "expiration date"]);
    if expires.is_none() {
        links.untold =
            Some("the column \"Expires at\": links that expire at Dub will not expire here");
    }
    let lost = table.left_columns(&NOT_IMPORTED, &IGNORED);
    while let Some(row) = table.next_row()? {
        let record = RawRecord {
            short_url: row.owned(link),
            needs_slug: true,
            destination_url: row.owned(destination).unwrap_or_default(),
            title: row.owned(title),
            tags: list_of_cell(row.cell(tags), ','),
            created_at: row.owned(created),
            expires_at: row.owned(expires),
            ..RawRecord::default()
        };
        links.add_row(&row, &lost, record);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::formats::tests::{change_lines, parsed};

    #[test]
    fn dub_links_carry_slug_tags_and_destination() {
        let parsed = parsed(
            SourceFormat::Dub,
            include_str!("../../../tests/data/import/dub.csv"),
        );
        let codes: Vec<_> = parsed
            .links
            .iter()
            .map(|link| link.refusal.as_ref().map(|it| it.code))
            .collect();
        let first = &parsed.links[0];
        assert_eq!(first.link.slug.as_deref(), Some("github"));
        assert_eq!(first.link.destination_url, "https://github.com/dubinc/dub");
        assert_eq!(first.link.details.tags, ["repo", "open source"]);
        let (character, missing) = (Some("slug_invalid_character"), Some("slug_missing"));
        assert_eq!(codes, [None, character, missing, None, character]);
        assert_eq!(parsed.links[3].link.slug.as_deref(), Some("v1.2"));
        let lines = change_lines(first);
        assert!(
            lines.contains(&"not carried over: clicks 2591".to_owned()),
            "{lines:?}"
        );
        let lines = change_lines(&parsed.links[1]);
        assert!(
            lines.contains(&"not carried over: archived true".to_owned()),
            "{lines:?}"
        );
    }

    #[test]
    fn dub_columns_of_earlier_exports_are_known() {
        let parsed = parsed(
            SourceFormat::Dub,
            "link,url,clicks\nhttps://dub.sh/try,https://dub.co,3\n",
        );
        assert_eq!(parsed.links[0].link.slug.as_deref(), Some("try"));
        let error = SourceFormat::Dub
            .parse("Destination URL,Clicked\n", false)
            .unwrap_err()
            .to_string();
        let expected = "--from dub expects the columns \"Short link\" and \"Destination URL\"; ";
        assert!(error.starts_with(&format!("line 1: {expected}")), "{error}");
    }

    #[test]
    fn further_columns_with_a_value_are_reported() {
        let text = "Short link,Destination URL,Expired URL,iOS targeting,Leads,Sales,Key,Password hash,External ID,Secretary,tracking_disabled\n\
                    https://dub.sh/a,https://e.com,https://e.com/over,,0,2,a,,x7,Ann,yes\n\
                    https://dub.sh/b,https://e.com,,,,,b,secret,,,\n\
                    https://dub.sh/c,https://e.com,,,,,c,No,,,\n";
        let parsed = parsed(SourceFormat::Dub, text);
        let [first, second, third] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!((&first.refusal, &third.refusal), (&None, &None));
        assert_eq!(
            change_lines(first),
            [
                "not carried over: Expired URL https://e.com/over",
                "not carried over: sales 2",
                "not carried over: External ID x7",
                "not carried over: Secretary Ann",
                "not carried over: tracking_disabled yes",
                "not carried over: domain dub.sh",
            ]
        );
        let code = second.refusal.as_ref().map(|refusal| refusal.code);
        assert_eq!(code, Some("password_not_supported"));
        assert!(!format!("{second:?}").contains("secret"));
    }
}
