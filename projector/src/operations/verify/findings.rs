//! Findings of a verification: wrong rows by table, bucket and account.

use linkledger_core::{
    id::{AccountId, EntryId, LinkId},
    shard::Shard,
};
use serde::Serialize;
use uuid::Uuid;

use super::{orphans::PagePlace, snapshot::LogBucket, subject::SubjectPart};
use crate::read_models::description::{ReadTable, RowId};

/// Maximum number of findings that are listed one by one; all are counted.
pub const NAMED_MAX: usize = 100;

linkledger_core::named_enum! {
    /// Defect of a row.
    #[derive(PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FindingKind {
        /// The log expects the row, and the table lacks it.
        Missing = "missing",
        /// The row differs from the expected row.
        Different = "different",
        /// No event explains the row.
        Orphan = "orphan",
    }
}

/// Row as the log expects it, and as the table has it.
#[derive(Debug, Serialize)]
pub struct ComparedRow {
    /// Name of the read table.
    pub table: &'static str,
    /// True if the log expects the row.
    pub is_expected: bool,
    /// True if the table has the row.
    pub is_found: bool,
    /// All columns.
    pub columns: Vec<ComparedColumn>,
}

impl ComparedRow {
    /// Returns true if the column has the value that the log expects.
    pub fn is_right(&self, column: &ComparedColumn) -> bool {
        self.is_expected == self.is_found && column.log == column.row
    }
}

/// Column of a row: the value that the log expects, and the value of the table, both as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ComparedColumn {
    /// Name of the column.
    pub name: &'static str,
    /// Value that the log expects; `None` for NULL, and without such a row.
    pub log: Option<String>,
    /// Value of the table.
    pub row: Option<String>,
}

/// One wrong row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct VerifyFinding {
    /// Name of the read table.
    pub table: &'static str,
    /// Shard of the row's account; `None` if there is no such account.
    pub shard: Option<i16>,
    /// Positions of the bucket in which the row was compared; `None` if the row was found in a page of
    /// the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<LogBucket>,
    /// Account of the row.
    pub account_id: AccountId,
    /// Link (`lnk_…`) or entry (`ent_…`) of the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// Defect of the row.
    pub kind: FindingKind,
    /// Columns that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ComparedColumn>,
}

/// Number of all findings, and the first findings in detail.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// Number of wrong rows.
    pub mismatches: u64,
    /// First findings, up to [`NAMED_MAX`].
    pub named: Vec<VerifyFinding>,
    /// Buckets and pages with findings.
    #[serde(skip)]
    pub(super) places: Vec<FindingPlace>,
}

/// Place of wrong rows.
#[derive(Debug, Clone)]
pub(super) enum FindingPlace {
    /// Rows that some events determine.
    Rows {
        table: &'static ReadTable,
        events: EventsPlace,
    },
    /// Rows of a page of the table.
    Page {
        table: &'static ReadTable,
        place: PagePlace,
    },
}

/// Place of the events that determine rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum EventsPlace {
    /// A bucket of a shard.
    Bucket(Shard, LogBucket),
    /// A part of the events of a link or an account.
    Subject(SubjectPart),
}

impl Findings {
    /// Returns true if nothing is wrong.
    pub const fn is_empty(&self) -> bool {
        self.mismatches == 0
    }

    /// Adds the findings of one bucket or page.
    pub(super) fn add(
        &mut self,
        place: FindingPlace,
        mismatches: u64,
        named: impl IntoIterator<Item = VerifyFinding>,
    ) {
        if mismatches > 0 {
            self.mismatches += mismatches;
            self.places.push(place);
            self.name(named);
        }
    }

    /// Adds the findings of another part.
    pub(super) fn append(&mut self, others: Self) {
        self.mismatches += others.mismatches;
        self.places.extend(others.places);
        self.name(others.named);
    }

    fn name(&mut self, findings: impl IntoIterator<Item = VerifyFinding>) {
        self.named.extend(findings);
        self.named.sort();
        self.named.truncate(NAMED_MAX);
    }
}

/// Returns the id of a row as people know it.
pub(super) fn shown_id(table: &ReadTable, row_id: Option<Uuid>) -> Option<String> {
    match table.row_id {
        RowId::Link(_) => row_id.map(|id| LinkId::from_uuid(id).to_string()),
        RowId::Entry(_) => row_id.map(|id| EntryId::from_uuid(id).to_string()),
        RowId::Account => None,
    }
}
