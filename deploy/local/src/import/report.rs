//! Report on a file of links: members that were left behind or changed, creation dates, missing pages.

use std::{collections::BTreeMap, fmt::Write as _};

use linkledger_core::{
    figures::{counted, grouped},
    printable::printable,
};

/// Number of member names that are counted apart; further names share one count.
const NAMES_MAX: usize = 50;
const OTHER_NAMES: &str = "other members";

/// Counts of members by name.
#[derive(Debug, Default)]
struct NameCounts(BTreeMap<String, u64>);

/// Members of a file that its links lack after the import.
#[derive(Debug, Default)]
pub(super) struct SourceReport {
    not_imported: NameCounts,
    changed: NameCounts,
    created: u64,
    /// Least and greatest creation date, by their text; the texts of a file have one form.
    created_range: Option<(String, String)>,
    /// Number of links that the source says it has, if greater than the number in the file.
    announced: Option<u64>,
}

impl NameCounts {
    fn add(&mut self, name: &str) {
        let has_room = self.0.len() < NAMES_MAX || self.0.contains_key(name);
        let name = if has_room { name } else { OTHER_NAMES };
        match self.0.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(name.to_owned(), 1)),
        }
    }

    fn write(&self, text: &mut String, title: &str) {
        if self.0.is_empty() {
            return;
        }
        writeln!(text, "{title}:").expect("writing to a string never fails");
        for (name, count) in &self.0 {
            let name = printable(name);
            writeln!(text, "  {count:>8}  {name}").expect("writing to a string never fails");
        }
    }
}

impl SourceReport {
    pub(super) fn count_not_imported(&mut self, name: &str) {
        self.not_imported.add(name);
    }

    pub(super) fn count_changed(&mut self, name: &str) {
        self.changed.add(name);
    }

    pub(super) fn count_created(&mut self, created_at: &str) {
        self.created += 1;
        match &mut self.created_range {
            Some((least, _)) if created_at < least.as_str() => created_at.clone_into(least),
            Some((_, greatest)) if created_at > greatest.as_str() => {
                created_at.clone_into(greatest);
            }
            Some(_) => {}
            None => self.created_range = Some((created_at.to_owned(), created_at.to_owned())),
        }
    }

    /// Notes the number of links that the source says it has.
    pub(super) fn announce(&mut self, total: u64, links: usize) {
        self.announced = (total > links as u64).then_some(total);
    }

    /// Returns a warning if the source has more links than the file.
    pub(super) fn missing_links_warning(&self, links: usize) -> Option<String> {
        let total = self.announced?;
        Some(format!(
            "the file has {} of {}: export the other pages too, and append them to the file",
            grouped(i64::try_from(links).unwrap_or(i64::MAX)),
            counted(total, "link")
        ))
    }

    /// Returns the lines of the report; empty if everything was carried over.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.not_imported.write(&mut text, "Not carried over");
        self.changed.write(&mut text, "Changed to fit");
        if let Some((least, greatest)) = &self.created_range {
            let (least, greatest) = (printable(least), printable(greatest));
            let created = counted(self.created, "link");
            writeln!(
                text,
                "Creation dates of {created}, {least} to {greatest}, are not carried over"
            )
            .expect("writing to a string never fails");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_counts_by_name_with_a_bound() {
        let mut report = SourceReport::default();
        assert_eq!(report.text(), "");
        for number in 0..1_000 {
            report.count_not_imported(&format!("member {number}"));
        }
        assert_eq!(report.text().lines().count(), 1 + NAMES_MAX + 1);
        assert!(report.text().contains("950  other members"));
    }

    #[test]
    fn report_shows_the_range_of_creation_dates() {
        let mut report = SourceReport::default();
        for date in ["2020-05-01", "2019-01-01", "2021-01-01", "2020-01-01"] {
            report.count_created(date);
        }
        let expected =
            "Creation dates of 4 links, 2019-01-01 to 2021-01-01, are not carried over\n";
        assert_eq!(report.text(), expected);
    }

    #[test]
    fn file_without_all_pages_is_warned_of() {
        let mut report = SourceReport::default();
        report.announce(10, 10);
        assert_eq!(report.missing_links_warning(10), None);
        report.announce(120, 10);
        assert!(
            report
                .missing_links_warning(10)
                .unwrap()
                .contains("10 of 120 links")
        );
    }
}
