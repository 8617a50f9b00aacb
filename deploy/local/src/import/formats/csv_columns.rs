//! CSV with the columns of this service. A cell is sent as it is, so the service refuses bad cells.

use linkledger_core::csv_cell::unguarded;

use super::{
    SourceError, SourceFormat, SourceLink, SourceLinks, SourceRefusal,
    table::{CsvRow, CsvTable},
};
use crate::import::{
    adapt::{last_segment_of, tags_of_cell},
    link::{ImportedLink, LINK_MEMBERS, LinkDetails},
};

/// Columns that an export has and an import does not need.
const IGNORED: [&str; 7] = [
    "id",
    "created_at",
    "clicks",
    "bots",
    "visitors",
    "etag",
    DISABLED_BY,
];
/// Column with the role that a link is disabled by.
const DISABLED_BY: &str = "disabled_by";

pub(super) fn parse(text: &str) -> Result<SourceLinks, SourceError> {
    let mut table = CsvTable::open(text)?;
    let [destination_url, optional @ ..] = LINK_MEMBERS;
    let optional = optional.join(", ");
    let expected = format!(
        "the column {destination_url}, and beside the columns of an export only {optional}"
    );
    SourceFormat::Csv.check_columns(&table, &expected)?;
    let columns = LINK_MEMBERS.map(|name| table.column(&[name]));
    let disabled_by = table.column(&[DISABLED_BY]);
    let mut links = Vec::new();
    while let Some(row) = table.next_row() {
        let row = row?;
        let mut link = link(&row, columns);
        if row.cell(disabled_by).is_some() {
            link.refusal = Some(SourceRefusal::disabled());
        }
        links.push(link);
    }
    Ok(SourceLinks {
        links,
        ..SourceLinks::default()
    })
}

/// Returns true if the table has the column of the destination, and only columns of a link or of an export.
pub(super) fn has_columns_of_format(table: &CsvTable<'_>) -> bool {
    has_destination(table) && table.unknown_column(&known_columns()).is_none()
}

/// Returns the first column that neither a link nor an export has; `None` if the table lacks the destination.
pub(super) fn unknown_column<'t>(table: &'t CsvTable<'_>) -> Option<&'t str> {
    let unknown = table.unknown_column(&known_columns());
    unknown.filter(|_| has_destination(table))
}

fn has_destination(table: &CsvTable<'_>) -> bool {
    table.has(&LINK_MEMBERS[..1])
}

fn known_columns() -> Vec<&'static str> {
    [&LINK_MEMBERS[..], &IGNORED].concat()
}

fn link(row: &CsvRow, columns: [Option<usize>; LINK_MEMBERS.len()]) -> SourceLink {
    let cells = columns.map(|column| row.cell(column).map(unguarded));
    let [
        destination_url,
        slug,
        short_url,
        title,
        tags,
        external_id,
        expires_at,
        expired_url,
    ] = cells.each_ref().map(Option::as_deref);
    let owned = |cell: Option<&str>| cell.map(ToOwned::to_owned);
    let slug = slug.or_else(|| short_url.and_then(last_segment_of));
    let has_no_slug = short_url.is_some() && slug.is_none();
    SourceLink {
        number: row.number,
        link: ImportedLink {
            destination_url: destination_url.unwrap_or_default().to_owned(),
            slug: owned(slug),
            details: LinkDetails {
                title: owned(title),
                tags: tags_of_cell(tags)
                    .into_iter()
                    .map(ToOwned::to_owned)
                    .collect(),
                external_id: owned(external_id),
                expires_at: owned(expires_at),
                expired_url: owned(expired_url),
            },
        },
        refusal: has_no_slug.then(SourceRefusal::no_slug),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_members_without_guards() {
        let text = "slug,destination_url,title,tags,id\n\
                    spring,https://example.com/,'=1+1,\"a, b\",lnk_1\n\
                    ,https://example.com/2,,,\n";
        let parsed = parse(text).unwrap();
        let link = &parsed.links[0].link;
        assert_eq!(link.slug.as_deref(), Some("spring"));
        assert_eq!(link.details.title.as_deref(), Some("=1+1"));
        assert_eq!(link.details.tags, ["a", "b"]);
        assert_eq!(
            (parsed.links[1].number, &parsed.links[1].link),
            (
                3,
                &ImportedLink {
                    destination_url: "https://example.com/2".to_owned(),
                    ..ImportedLink::default()
                }
            )
        );
    }

    #[test]
    fn short_url_of_a_host_is_refused() {
        let text = "destination_url,short_url,slug\n\
                    https://a.example/,https://s.test/,\n\
                    https://a.example/,https://s.test/,chosen\n";
        let parsed = parse(text).unwrap();
        let codes = parsed.links.iter().map(|link| &link.refusal);
        let codes: Vec<_> = codes
            .map(|refusal| refusal.as_ref().map(|it| it.code))
            .collect();
        assert_eq!(codes, [Some("slug_missing"), None]);
    }

    #[test]
    fn disabled_link_is_refused() {
        let text = "destination_url,disabled_by\nhttps://a.example/,owner\nhttps://a.example/,\n";
        let parsed = parse(text).unwrap();
        let codes = parsed.links.iter().map(|link| &link.refusal);
        let codes: Vec<_> = codes
            .map(|refusal| refusal.as_ref().map(|it| it.code))
            .collect();
        assert_eq!(codes, [Some("link_disabled"), None]);
    }

    #[test]
    fn misspelt_column_is_refused() {
        let error = parse("destination_url,expire_at\n")
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("; \"expireat\" is none of them"), "{error}");
        let error = parse("url,slug\n").unwrap_err().to_string();
        assert!(
            error.starts_with("line 1: --from csv expects the column destination_url, and"),
            "{error}"
        );
    }
}
