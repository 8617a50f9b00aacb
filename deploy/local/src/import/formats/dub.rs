//! Dub: the CSV that the page of links exports, with the columns that were chosen there.

use super::{SourceError, SourceFormat, SourceLinks, SourceRefusal, table::CsvTable};
use crate::import::adapt::{ForeignLink, path_of, tags_of_cell};

/// Columns without a counterpart, and their names in the report.
const NOT_IMPORTED: [(&[&str], &str); 6] = [
    (&["clicks"], "clicks"),
    (
        &["leads", "conversions", "sales", "sale amount"],
        "conversions",
    ),
    (&["description"], "description"),
    (&["archived"], "archived"),
    (&["folder", "folder id"], "folder"),
    (&["id", "link id", "external id"], "id"),
];

const SHORT_LINK: &str = "short_link";
const URL: &str = "url";
/// Columns of the format, for an error.
const EXPECTED: &str = "the columns \"Short link\" and \"Destination URL\"";

/// Returns true for the columns of an export, also by their names in earlier exports, `link` and `url`.
pub(super) fn has_columns_of_format(table: &CsvTable<'_>) -> bool {
    let has = |name: &str| table.has(&[name]);
    has(SHORT_LINK) && (has("destination_url") || has(URL)) || has("link") && has(URL)
}

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut table = CsvTable::open(text)?;
    SourceFormat::Dub.check_columns(&table, EXPECTED)?;
    let link = table.column(&[SHORT_LINK, "link"]);
    let destination = table.column(&["destination_url", URL]);
    let title = table.column(&["title"]);
    let tags = table.column(&["tags"]);
    let created = table.column(&["created_at"]);
    let expires = table.column(&["expires_at", "expiration date"]);
    let lost = NOT_IMPORTED.map(|(names, name)| (table.column(names), name));
    let mut parsed = SourceLinks::default();
    while let Some(row) = table.next_row() {
        let row = row?;
        let slug = row.cell(link).and_then(path_of);
        let foreign = ForeignLink {
            destination_url: row.cell(destination).unwrap_or_default(),
            slug,
            title: row.cell(title),
            tags: tags_of_cell(row.cell(tags)),
            created_at: row.cell(created),
            expires_at: row.cell(expires),
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
    fn dub_links_carry_slug_tags_and_destination() {
        let parsed = parse(include_str!("../../../tests/data/import/dub.csv")).unwrap();
        let [first, second, third] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(first.link.slug.as_deref(), Some("github"));
        assert_eq!(first.link.destination_url, "https://github.com/dubinc/dub");
        assert_eq!(first.link.details.tags, ["open-source", "repo"]);
        assert_eq!(second.link.slug.as_deref(), Some("docs/start"));
        let code = third.refusal.as_ref().map(|refusal| refusal.code);
        assert_eq!(code, Some("slug_missing"));
        let report = parsed.report.text();
        assert!(
            report.contains("2  clicks") && report.contains("1  archived"),
            "{report}"
        );
    }

    #[test]
    fn dub_columns_of_earlier_exports_are_known() {
        let parsed = parse("link,url,clicks\nhttps://dub.sh/try,https://dub.co,3\n").unwrap();
        assert_eq!(parsed.links[0].link.slug.as_deref(), Some("try"));
        let error = parse("Destination URL,Clicked\n")
            .err()
            .unwrap()
            .to_string();
        let expected = "--from dub expects the columns \"Short link\" and \"Destination URL\"; ";
        assert!(error.starts_with(&format!("line 1: {expected}")), "{error}");
    }
}
