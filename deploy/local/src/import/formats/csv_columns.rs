//! CSV with the columns of this service.

use linkledger_core::csv_cell::unguarded;

use super::{
    ID_PREFIX, RawRecord, Refusal, SourceError, SourceFormat, SourceLinks, list_of_cell,
    table::{CsvRow, CsvTable, spelling},
};
use crate::import::{
    blank::trimmed,
    link::LINK_MEMBERS,
    record::{SLUG_CODES, shown},
};

/// Columns that an export has and an import does not need.
const IGNORED: [&str; 7] = [
    ID,
    "created_at",
    "clicks",
    "bots",
    "visitors",
    "etag",
    DISABLED_BY,
];
/// Columns that a report has beside those of its links.
const REPORT: [&str; 5] = ["line", "status", CODE, "reason", "changes"];
/// Column with the address that visitors use so far, which may differ from the new slug.
const OLD_ADDRESS: &str = "old_address";
/// Column with the id of a link of this service.
const ID: &str = "id";
/// Column of a report with the code of a refusal.
const CODE: &str = "code";
/// Column with the role that a link is disabled by.
const DISABLED_BY: &str = "disabled_by";
/// Number of changed letters up to which a name is taken for a misspelt one.
const MISSPELT_MAX: usize = 3;

pub(super) fn parse(text: &str, links: &mut SourceLinks) -> Result<(), SourceError> {
    let mut table = CsvTable::open(text)?;
    SourceFormat::Csv.check_columns(&table)?;
    let columns = LINK_MEMBERS.map(|name| table.column(&[name]));
    let [_, _, _, title, ..] = columns;
    let [disabled_by, id, old_address, code] =
        [DISABLED_BY, ID, OLD_ADDRESS, CODE].map(|name| table.column(&[name]));
    let unnamed = table.unnamed_columns();
    while let Some(row) = table.next_row()? {
        let mut record = record(&row, columns);
        if row.cell(id).is_some_and(|id| id.starts_with(ID_PREFIX)) {
            record.is_own = true;
            record.title = row
                .whole_cell(title)
                .map(|title| unguarded(title).into_owned());
        }
        if let Some(old) = row.cell(old_address).map(unguarded) {
            record.slug = record.slug.or(record.short_url.take());
            record.moved_from = Some(old.into_owned());
            record.needs_slug = true;
        }
        if row.cell(disabled_by).is_some() {
            record.refusal = Some(Refusal::disabled());
        }
        if let Some(code) = row.cell(code).map(trimmed) {
            record.needs_slug |= code.starts_with(SLUG_CODES);
            record.refusal = record.refusal.or_else(|| Refusal::lasting(code));
        }
        links.add_row(&row, &unnamed, record);
    }
    Ok(())
}

/// Returns true if the table has the column of the destination, and only columns of a link, an export or a report.
pub(super) fn has_columns_of_format(table: &CsvTable<'_>) -> bool {
    has_destination(table) && table.unknown_column(&known_columns(table)).is_none()
}

/// Returns the columns of the format, for an error.
pub(super) fn expected() -> String {
    let [destination_url, optional @ ..] = LINK_MEMBERS;
    let optional = optional.join(", ");
    format!(
        "the column {destination_url}, and beside the columns of an export or a report only {optional}, {OLD_ADDRESS}"
    )
}

/// Returns words about the first column that no link, export or report has; `None` if the table lacks the
/// destination.
pub(super) fn unknown_column(table: &CsvTable<'_>) -> Option<String> {
    let unknown = table.unknown_column(&known_columns(table))?;
    let distance = |name: &str| strsim::osa_distance(&spelling(name), &spelling(unknown));
    let names = LINK_MEMBERS.into_iter().chain([OLD_ADDRESS]);
    let nearest = names.min_by_key(|name| distance(name));
    let nearest = nearest.filter(|name| distance(name) <= MISSPELT_MAX && !table.has(&[name]));
    let advice = nearest.map_or_else(
        || "take the column away".to_owned(),
        |name| format!("is it {name}? Otherwise take the column away"),
    );
    has_destination(table).then(|| format!("\"{}\" is none of them: {advice}", shown(unknown)))
}

fn has_destination(table: &CsvTable<'_>) -> bool {
    table.has(&LINK_MEMBERS[..1])
}

/// Returns the columns of the format. A report without slugs, as the console writes one, lacks the details of its links
/// too.
fn known_columns(table: &CsvTable<'_>) -> Vec<&'static str> {
    let report = if table.has(&LINK_MEMBERS[1..2]) {
        &REPORT[..]
    } else {
        &[]
    };
    [&LINK_MEMBERS[..], &IGNORED, &[OLD_ADDRESS], report].concat()
}

fn record(row: &CsvRow, columns: [Option<usize>; LINK_MEMBERS.len()]) -> RawRecord {
    let [
        destination_url,
        slug,
        short_url,
        title,
        tags,
        external_id,
        expires_at,
        expired_url,
    ] = columns.map(|column| row.cell(column).map(|cell| unguarded(cell).into_owned()));
    RawRecord {
        slug,
        // A row of an export has an address; a host without a slug is none.
        needs_slug: short_url.is_some(),
        short_url,
        destination_url: destination_url.unwrap_or_default(),
        title,
        tags: list_of_cell(tags.as_deref(), ','),
        external_id,
        expires_at,
        expired_url,
        ..RawRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{
        formats::tests::{change_lines, parsed},
        link::ImportedLink,
    };

    #[test]
    fn cell_without_a_column_name_is_reported() {
        let links = parsed(
            SourceFormat::Csv,
            "destination_url,,\nhttps://e.com/,menu,\nhttps://e.com/2,no,0\n",
        )
        .links;
        let reported = ["not carried over: column 2 (no name) menu"];
        assert_eq!(change_lines(&links[0]), reported);
        let words = [
            "not carried over: column 2 (no name) no",
            "not carried over: column 3 (no name) 0",
        ];
        assert_eq!(change_lines(&links[1]), words);
    }

    #[test]
    fn columns_become_members_without_guards() {
        let text = "slug,destination_url,title,tags,id\n\
                    spring,https://example.com/,'=1+1,\"a, b\",lnk_1\n\
                    ,https://example.com/2,,,\n";
        let parsed = parsed(SourceFormat::Csv, text);
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
    fn short_url_names_the_slug_and_never_contradicts_a_slug() {
        let text = "destination_url,short_url,slug\n\
                    https://a.example/,https://s.test/,\n\
                    https://a.example/,https://s.test/Chosen,chosen\n\
                    https://a.example/,https://s.test/own,\n\
                    https://a.example/,https://s.test/bbb,aaa\n\
                    https://a.example/,https://s.test/x/ccc,ccc\n\
                    https://a.example/,https://s.test/a/b,\n\
                    https://a.example/,,\n";
        let parsed = parsed(SourceFormat::Csv, text);
        let outcomes: Vec<_> = parsed
            .links
            .iter()
            .map(|link| match &link.refusal {
                Some(refusal) => refusal.code,
                None => link.link.slug.as_deref().unwrap_or_default(),
            })
            .collect();
        assert_eq!(
            outcomes,
            [
                "slug_missing",
                "chosen",
                "own",
                "slug_differs",
                "slug_invalid_character",
                "slug_invalid_character",
                ""
            ]
        );
    }

    #[test]
    fn old_address_stays_beside_a_new_slug() {
        let text = "destination_url,old_address,slug,short_url\n\
                    https://a.example/,https://s.test/2023/review,review-2023,\n\
                    https://a.example/,https://s.test/go/x,,x\n\
                    https://a.example/,https://s.test/same,,\n\
                    https://a.example/,https://s.test/2023/other,,\n\
                    https://a.example/,,plain,\n";
        let links = parsed(SourceFormat::Csv, text).links;
        let slugs: Vec<_> = links.iter().map(|it| it.link.slug.as_deref()).collect();
        let plain = Some("plain");
        assert_eq!(
            slugs,
            [Some("review-2023"), Some("x"), Some("same"), None, plain]
        );
        let old: Vec<_> = links.iter().map(|it| it.old_address.as_deref()).collect();
        assert_eq!(old[0], Some("https://s.test/2023/review"));
        assert_eq!((old[3], old[4]), (Some("https://s.test/2023/other"), plain));
        let became = "old address \"https://s.test/2023/review\" became \"review-2023\"";
        assert_eq!(change_lines(&links[0])[1], became);
        assert_eq!(change_lines(&links[2]), ["not carried over: domain s.test"]);
        let code = links[3].refusal.as_ref().map(|it| it.code);
        assert_eq!(code, Some("slug_invalid_character"));
    }

    #[test]
    fn disabled_link_is_refused() {
        let text = "destination_url,disabled_by\nhttps://a.example/,owner\nhttps://a.example/,\n";
        let parsed = parsed(SourceFormat::Csv, text);
        let codes = parsed.links.iter().map(|link| &link.refusal);
        let codes: Vec<_> = codes
            .map(|refusal| refusal.as_ref().map(|it| it.code))
            .collect();
        assert_eq!(codes, [Some("link_disabled"), None]);
    }

    #[test]
    fn misspelt_column_is_refused_with_the_nearest_name() {
        let error = |text: &str| {
            SourceFormat::Csv
                .parse(text, false)
                .unwrap_err()
                .to_string()
        };
        let misspelt = error("destination_url,expire_at\n");
        assert!(
            misspelt.contains("\"expire_at\" is none of them: is it expires_at?"),
            "{misspelt}"
        );
        let unknown = error("destination_url,notes\n");
        assert!(
            unknown.ends_with("\"notes\" is none of them: take the column away"),
            "{unknown}"
        );
        let report = error("line,old_address,destination_url,status,code,reason,changes\n");
        assert!(report.contains("\"line\" is none of them"), "{report}");
        let other = error("url,slug\n");
        assert!(
            other.starts_with("line 1: --from csv expects the column destination_url, and"),
            "{other}"
        );
    }

    #[test]
    fn row_of_a_report_becomes_the_mended_link() {
        let text = "line,old_address,slug,destination_url,short_url,status,code,reason,changes,title,tags\n\
                    2,https://s.test/2023/x,x-2023,https://a.example/,,refused,slug_invalid_character,R,C,'=T,\"a,b\"\n\
                    3,,,https://a.example/,,refused,slug_missing,,,,\n\
                    4,https://s.test/y,,https://a.example/,,refused,url_scheme_not_allowed,,,,\n";
        assert_eq!(SourceFormat::detect(text), Ok(SourceFormat::Csv));
        let links = parsed(SourceFormat::Csv, text).links;
        let [first, second, third] = &links[..] else {
            panic!("{links:?}")
        };
        assert_eq!(first.refusal, None);
        assert_eq!(first.link.slug.as_deref(), Some("x-2023"));
        assert_eq!(first.link.details.title.as_deref(), Some("=T"));
        assert_eq!(first.link.details.tags, ["a", "b"]);
        let code = second.refusal.as_ref().map(|it| it.code);
        assert_eq!(code, Some("slug_missing"));
        assert_eq!(third.link.slug.as_deref(), Some("y"));
    }

    #[test]
    fn protected_link_of_a_report_stays_refused() {
        for code in ["password_not_supported", "link_banned", "record_invalid"] {
            let row = |code| format!("destination_url,slug,code\nhttps://a.example/,x,{code}\n");
            let refusal = |code| {
                parsed(SourceFormat::Csv, &row(code))
                    .links
                    .remove(0)
                    .refusal
            };
            assert_eq!(refusal(code).map(|refusal| refusal.code), Some(code));
            assert_eq!(refusal(""), None);
        }
    }
}
