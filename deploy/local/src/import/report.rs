//! Report on the differences between the records of a file and their links: counts by name, the first changes old to
//! new, and the range of creation dates. `--out FILE` has all of them.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use linkledger_service::number_format::counted;

use super::{lines::ImportFile, record::Change, rule::CREATION_DATE};

/// Number of names that are counted apart; further names share one count.
const NAMES_MAX: usize = 50;
const OTHER_NAMES: &str = "others";
/// Number of changes that are shown old to new.
const SHOWN_MAX: usize = 20;

/// Counts by name.
#[derive(Debug, Default)]
struct NameCounts<'a>(BTreeMap<&'a str, u64>);

impl<'a> NameCounts<'a> {
    fn add(&mut self, name: &'a str) {
        let has_room = self.0.len() < NAMES_MAX || self.0.contains_key(name);
        *self
            .0
            .entry(if has_room { name } else { OTHER_NAMES })
            .or_default() += 1;
    }

    fn write(&self, text: &mut String, title: &str) {
        if self.0.is_empty() {
            return;
        }
        writeln!(text, "{title}:").expect("writing to a string never fails");
        for (name, count) in &self.0 {
            writeln!(text, "  {count:>8}  {name}").expect("writing to a string never fails");
        }
    }
}

/// Returns the lines of the report; empty if every record became a link just as written.
pub(super) fn text(file: &ImportFile) -> String {
    let (mut left_behind, mut changed) = (NameCounts::default(), NameCounts::default());
    let (mut created, mut dates) = (0, Vec::new());
    let mut shown = String::new();
    let mut count = 0_u64;
    for source in file.lines.iter().map(|line| &line.source) {
        for change in &source.changes {
            match change {
                Change::LeftBehind { what, value } if *what == Cow::Borrowed(CREATION_DATE) => {
                    created += 1;
                    widen(&mut dates, value);
                    continue;
                }
                Change::LeftBehind { what, .. } => {
                    left_behind.add(what);
                    continue;
                }
                Change::Became { what, .. } | Change::Dropped { what, .. } => changed.add(what),
            }
            count += 1;
            if count <= SHOWN_MAX as u64 {
                let place = file.place(source);
                writeln!(shown, "  {place}: {change}").expect("writing to a string never fails");
            }
        }
    }
    let mut text = String::new();
    left_behind.write(&mut text, "Not carried over");
    changed.write(&mut text, "Changed to fit");
    text.push_str(&shown);
    if let Some(more) = count.checked_sub(SHOWN_MAX as u64).filter(|more| *more > 0) {
        let more = counted(more, "change");
        writeln!(text, "  … and {more} more; --out FILE has them all")
            .expect("writing to a string never fails");
    }
    if let [least, greatest] = dates[..] {
        let created = counted(created, "link");
        writeln!(
            text,
            "Creation dates of {created}, {least} to {greatest}, are not carried over"
        )
        .expect("writing to a string never fails");
    }
    text
}

/// Widens the range of dates, by their text; the texts of a file have one form.
fn widen<'a>(range: &mut Vec<&'a str>, date: &'a str) {
    match &mut range[..] {
        [least, _] if date < *least => *least = date,
        [_, greatest] if date > *greatest => *greatest = date,
        [_, _] => {}
        _ => *range = vec![date, date],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{formats::SourceFormat, lines};

    fn report(text_of_file: &str, format: SourceFormat) -> String {
        text(&lines::of_text(text_of_file, format))
    }

    #[test]
    fn report_shows_changes_old_to_new_with_a_bound() {
        assert_eq!(report("https://e.com/\n", SourceFormat::Addresses), "");
        let list: Vec<_> = (0..23).map(|n| format!("e{n}.com")).collect();
        let report = report(&list.join("\n"), SourceFormat::Addresses);
        assert!(
            report.starts_with("Changed to fit:\n        23  destination\n"),
            "{report}"
        );
        assert!(
            report.contains(
                "  line 1 (https://e0.com): destination \"e0.com\" became \"https://e0.com\"\n"
            ),
            "{report}"
        );
        assert_eq!(report.matches("  line ").count(), 20);
        assert!(
            report.ends_with("  … and 3 changes more; --out FILE has them all\n"),
            "{report}"
        );
    }

    #[test]
    fn report_counts_what_is_not_carried_over() {
        let csv = include_str!("../../tests/data/import/bitly.csv");
        let report = report(csv, SourceFormat::Bitly);
        for line in [
            "         2  clicks\n",
            "         2  domain bit.ly\n",
            "         1  domain go.example\n",
            "Creation dates of 3 links, 2024-03-01T09:00:00+0000 to 2024-03-03T09:00:00+0000, are not carried over\n",
        ] {
            assert!(report.contains(line), "{report}");
        }
        let many: Vec<_> = (0..99)
            .map(|n| format!("https://e.com,https://s{n}.test/x{n}"))
            .collect();
        let report = self::report(
            &format!("destination_url,short_url\n{}", many.join("\n")),
            SourceFormat::Csv,
        );
        assert_eq!(report.lines().count(), 1 + NAMES_MAX + 1);
        assert!(report.contains("49  others"), "{report}");
    }
}
