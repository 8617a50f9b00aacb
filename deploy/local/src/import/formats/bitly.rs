//! Bitly: the CSV that the page of links exports. The names of its columns differ between exports.

use super::{
    RawRecord, SourceError, SourceFormat, SourceLinks, list_of_cell, shlink, table::CsvTable,
};
use crate::import::blank::trimmed;

/// Columns without a counterpart, and their names in the report.
const NOT_IMPORTED: [(&[&str], &str); 3] = [
    (
        &["clicks", "total clicks", "engagements", "total engagements"],
        "clicks",
    ),
    (&["campaign", "campaigns", "group"], "campaign or group"),
    (&["archived"], "archived"),
];

const CREATED: [&str; 4] = ["created", "created_at", "date_created", "creation_date"];
const LINK: [&str; 2] = ["link", "bitlink"];
/// Names of the short address that are Bitly's only beside [`LONG_URL`]: other products have them too.
const SHORT_LINK: [&str; 2] = ["short_url", "short_link"];
const CUSTOM_LINK: [&str; 2] = ["custom_link", "custom_bitlink"];
/// Column of the slug alone.
const BACK_HALF: [&str; 1] = ["custom_back_half"];
const LONG_URL: [&str; 2] = ["long_url", "original_url"];
const DESTINATION_URL: [&str; 1] = ["destination_url"];
/// Columns of the format, for an error.
pub(super) const EXPECTED: &str = "the column \"Link\", \"Bitlink\" or \"Custom Link\", and the column \"Long URL\" or \"Destination URL\"";

/// Returns true for a column of short addresses and a column of destinations.
pub(super) fn has_columns_of_format(table: &CsvTable<'_>) -> bool {
    let has_link = table.has(&LINK) || table.has(&CUSTOM_LINK) || table.has(&BACK_HALF);
    !shlink::has_columns_of_format(table)
        && (has_link && table.has(&DESTINATION_URL)
            || (has_link || table.has(&SHORT_LINK)) && table.has(&LONG_URL))
}

pub(super) fn parse(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let mut table = CsvTable::open(text)?;
    SourceFormat::Bitly.check_columns(&table)?;
    let destination = table.column(&[&LONG_URL[..], &DESTINATION_URL].concat());
    let custom = table.column(&CUSTOM_LINK);
    let back_half = table.column(&BACK_HALF);
    let link = table.column(&[LINK, SHORT_LINK].concat());
    let title = table.column(&["title"]);
    let tags = table.column(&["tags"]);
    let created = table.ignored_column(&CREATED);
    let lost = table.left_columns(&NOT_IMPORTED, &CREATED);
    while let Some(row) = table.next_row()? {
        let slug = row.owned(back_half);
        // Bitly answers both addresses of a link, and one of them is kept: the chosen one.
        let is_other = |link: &str| {
            let end = link.rsplit('/').next();
            slug.as_deref()
                .is_some_and(|slug| end != Some(trimmed(slug)))
        };
        let (short_url, second) = match (row.owned(custom), row.owned(link)) {
            (Some(custom), link) => {
                let second = link.filter(|link| *link != custom);
                (Some(custom), second)
            }
            (None, Some(link)) if is_other(trimmed(&link)) => (None, Some(link)),
            (None, link) => (link, None),
        };
        let mut record = RawRecord {
            slug,
            short_url,
            needs_slug: true,
            destination_url: row.owned(destination).unwrap_or_default(),
            title: row.owned(title),
            tags: list_of_cell(row.cell(tags), ','),
            created_at: row.owned(created),
            ..RawRecord::default()
        };
        if let Some(second) = second {
            record.leave_behind("second address", &second);
        }
        links.add_row(&row, &lost, record);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::formats::tests::{change_lines, parsed};

    #[test]
    fn protected_and_disabled_links_are_refused() {
        let text = "short_url,long_url,secret_key,is_disabled\n\
                    a,https://e.com/,abcd,0\n\
                    b,https://e.com/,,1\n\
                    c,https://e.com/,,0\n";
        let links = parsed(SourceFormat::Bitly, text).links;
        let codes: Vec<_> = links
            .iter()
            .map(|link| link.refusal.as_ref().map(|refusal| refusal.code))
            .collect();
        let expected = [Some("password_not_supported"), Some("link_disabled"), None];
        assert_eq!(codes, expected);
    }

    #[test]
    fn bitly_custom_link_names_the_slug() {
        let parsed = parsed(
            SourceFormat::Bitly,
            include_str!("../../../tests/data/import/bitly.csv"),
        );
        let links: Vec<_> = parsed.links.iter().map(|link| &link.link).collect();
        let slugs: Vec<_> = links.iter().map(|link| link.slug.as_deref()).collect();
        assert_eq!(slugs, [Some("3abcXyz"), Some("spring-sale"), Some("4Qrst")]);
        assert_eq!(links[1].destination_url, "https://example.com/spring");
        assert_eq!(links[1].details.title.as_deref(), Some("Spring, \"sale\""));
        assert_eq!(links[1].details.tags, ["promo", "q1 2026"]);
        assert_eq!(
            change_lines(&parsed.links[1]),
            [
                "not carried over: second address https://bit.ly/3abcXy1",
                "not carried over: clicks 7",
                "not carried over: domain go.example",
                "tag \"Q1 2026\" became \"q1 2026\"",
                "not carried over: creation date 2024-03-02T09:00:00+0000",
            ]
        );
    }

    #[test]
    fn bitly_back_half_is_the_slug_of_its_address() {
        let text = "Bitlink,Custom back-half,Custom Link,Long URL\nbit.ly/4aC,my-half,,https://e.com/1\n\
                    bit.ly/one,one,,https://e.com/2\nbit.ly/4aD,two,go.test/three,https://e.com/3\n";
        let parsed = parsed(SourceFormat::Bitly, text);
        let slug = |index: usize| parsed.links[index].link.slug.as_deref();
        assert_eq!((slug(0), slug(1)), (Some("my-half"), Some("one")));
        assert_eq!(
            change_lines(&parsed.links[0]),
            ["not carried over: second address bit.ly/4aC"]
        );
        assert_eq!(parsed.links[1].changes.len(), 1);
        assert_eq!(
            parsed.links[2].refusal.as_ref().unwrap().code,
            "slug_differs"
        );
    }

    #[test]
    fn bitly_columns_have_several_names() {
        let text = "Bitlink,Long URL\nhttps://bit.ly/x1y,https://a.example\nbit.ly/,b.example\nbit.ly,b.example\n,c.example\n\
                    https://bit.ly/a/b,c.example\n";
        let parsed = parsed(SourceFormat::Bitly, text);
        assert_eq!(parsed.links[0].link.slug.as_deref(), Some("x1y"));
        let codes = parsed
            .links
            .iter()
            .map(|link| link.refusal.as_ref().map(|it| it.code));
        let missing = Some("slug_missing");
        let expected = [
            None,
            missing,
            missing,
            missing,
            Some("slug_invalid_character"),
        ];
        assert_eq!(codes.collect::<Vec<_>>(), expected);
        let error = |text: &str| {
            SourceFormat::Bitly
                .parse(text, false)
                .unwrap_err()
                .to_string()
        };
        let one = error("Bitlink,Title\n");
        assert!(
            one.starts_with("line 1: --from bitly expects the column \"Link\""),
            "{one}"
        );
        let one = error("Long URL,Title\n");
        assert!(one.ends_with("the columns are Long URL, Title"), "{one}");
    }
}
