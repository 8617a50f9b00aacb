//! Dub: the CSV that the page of links exports, with the columns that were chosen there.

use super::{SourceError, SourceLinks, SourceRefusal, table::CsvTable};
use crate::import::adapt::{ForeignLink, path_of, tags_of_cell};

/// Columns without a counterpart, and their names in the report.
const NOT_CARRIED: [(&[&str], &str); 6] = [
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

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut table = CsvTable::open(text)?;
    let link = table.required_column(&["short_link", "link"])?;
    let destination = table.required_column(&["destination_url", "url"])?;
    let title = table.column(&["title"]);
    let tags = table.column(&["tags"]);
    let created = table.column(&["created_at"]);
    let expires = table.column(&["expires_at", "expiration date"]);
    let lost = NOT_CARRIED.map(|(names, name)| (table.column(names), name));
    let mut parsed = SourceLinks::default();
    while let Some(row) = table.next_row() {
        let row = row?;
        let slug = row.cell(Some(link)).and_then(path_of);
        let foreign = ForeignLink {
            destination_url: row.cell(Some(destination)).unwrap_or_default(),
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
        let error = parse("Destination URL\n").err().unwrap().to_string();
        assert!(error.starts_with("line 1: no column short_link"), "{error}");
    }
}
