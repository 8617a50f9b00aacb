//! Bitly: the CSV that the page of links exports. The names of its columns differ between exports.

use super::{SourceError, SourceFormat, SourceLinks, SourceRefusal, table::CsvTable};
use crate::import::adapt::{ForeignLink, last_segment_of, tags_of_cell};

/// Columns without a counterpart, and their names in the report.
const NOT_IMPORTED: [(&[&str], &str); 3] = [
    (
        &["clicks", "total clicks", "engagements", "total engagements"],
        "clicks",
    ),
    (&["campaign", "campaigns", "group"], "campaign or group"),
    (&["archived"], "archived"),
];

const LINK: [&str; 2] = ["link", "bitlink"];
/// Names of the short address that are Bitly's only beside [`LONG_URL`]: other products have them too.
const SHORT_LINK: [&str; 2] = ["short_url", "short_link"];
const CUSTOM_LINK: [&str; 3] = ["custom_link", "custom_bitlink", "custom_back_half"];
const LONG_URL: [&str; 2] = ["long_url", "original_url"];
const DESTINATION_URL: [&str; 1] = ["destination_url"];
/// Columns of the format, for an error.
const EXPECTED: &str = "the column \"Link\", \"Bitlink\" or \"Custom Link\", and the column \"Long URL\" or \"Destination URL\"";

/// Returns true for a column of short addresses and a column of destinations.
pub(super) fn has_columns_of_format(table: &CsvTable<'_>) -> bool {
    let has_link = table.has(&LINK) || table.has(&CUSTOM_LINK);
    has_link && table.has(&DESTINATION_URL)
        || (has_link || table.has(&SHORT_LINK)) && table.has(&LONG_URL)
}

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut table = CsvTable::open(text)?;
    SourceFormat::Bitly.check_columns(&table, EXPECTED)?;
    let destination = table.column(&[&LONG_URL[..], &DESTINATION_URL].concat());
    let custom = table.column(&CUSTOM_LINK);
    let link = table.column(&[LINK, SHORT_LINK].concat());
    let title = table.column(&["title"]);
    let tags = table.column(&["tags"]);
    let created = table.column(&["created", "created_at", "date_created", "creation_date"]);
    let lost = NOT_IMPORTED.map(|(names, name)| (table.column(names), name));
    let mut parsed = SourceLinks::default();
    while let Some(row) = table.next_row() {
        let row = row?;
        let short_url = row.cell(custom).or_else(|| row.cell(link));
        let slug = short_url.and_then(|url| {
            if url.contains('/') {
                last_segment_of(url)
            } else {
                Some(url)
            }
        });
        let foreign = ForeignLink {
            destination_url: row.cell(destination).unwrap_or_default(),
            slug,
            title: row.cell(title),
            tags: tags_of_cell(row.cell(tags)),
            created_at: row.cell(created),
            expires_at: None,
            refusal: slug.is_none().then(SourceRefusal::no_slug),
        };
        parsed.add_row(&row, &lost, foreign);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitly_custom_link_names_the_slug() {
        let parsed = parse(include_str!("../../../tests/data/import/bitly.csv")).unwrap();
        let links: Vec<_> = parsed.links.iter().map(|link| &link.link).collect();
        let slugs: Vec<_> = links.iter().map(|link| link.slug.as_deref()).collect();
        assert_eq!(slugs, [Some("3abcXyz"), Some("spring-sale"), Some("4Qrst")]);
        assert_eq!(links[1].destination_url, "https://example.com/spring");
        assert_eq!(links[1].details.title.as_deref(), Some("Spring, \"sale\""));
        assert_eq!(links[1].details.tags, ["promo", "q1-2026"]);
        let report = parsed.report.text();
        assert!(report.contains("1  tags"), "{report}");
        assert!(report.contains("2  clicks"), "{report}");
    }

    #[test]
    fn bitly_columns_have_several_names() {
        let parsed =
            parse("Bitlink,Long URL\nhttps://bit.ly/x1y,https://a.example\nbit.ly/,b\n,c\n");
        let parsed = parsed.unwrap();
        assert_eq!(parsed.links[0].link.slug.as_deref(), Some("x1y"));
        for link in &parsed.links[1..] {
            let code = link.refusal.as_ref().map(|refusal| refusal.code);
            assert_eq!(code, Some("slug_missing"));
        }
        let error = parse("Bitlink,Title\n").err().unwrap().to_string();
        assert!(
            error.starts_with("line 1: --from bitly expects the column \"Link\""),
            "{error}"
        );
        let error = parse("Long URL,Title\n").err().unwrap().to_string();
        assert!(error.ends_with("the columns are longurl, title"), "{error}");
    }
}
