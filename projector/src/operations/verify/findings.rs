//! What a verification finds wrong: rows by table, bucket and account.

use linkledger_core::{id::AccountId, shard::Shard};
use serde::Serialize;

use crate::read_models::{
    comparison::{FoundRow, Kind},
    pages::Key,
    snapshot::Bucket,
    tables::Table,
};

/// Most rows that are named; all are counted.
pub const NAMED_MAX: usize = 100;

/// One row that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The read table.
    pub table: Table,
    /// The shard of its account; none if there is no such account.
    pub shard: Option<i16>,
    /// Positions of the bucket in which it was found, `None` if it was found in the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// Whose row it is.
    pub account_id: AccountId,
    /// The link (`lnk_…`) or the entry (`ent_…`) whose row it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// What is wrong with it.
    pub kind: Kind,
    /// The columns that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

/// All that was found: counted, and the first rows by name.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// How much is wrong: rows, and places at which a ledger does not add up.
    pub mismatches: u64,
    /// The latter: nothing is written there, they are right when the rows are.
    pub unbalanced: u64,
    /// In how many buckets and pages they are.
    pub buckets: u64,
    /// The first of them, up to [`NAMED_MAX`].
    pub named: Vec<Finding>,
    /// Where all of them are: no more than there are buckets and pages.
    #[serde(skip)]
    pub(super) places: Vec<Place>,
}

/// Where rows are wrong.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Among the rows of a bucket.
    Bucket {
        table: Table,
        shard: Shard,
        bucket: Bucket,
    },
    /// Among the rows of a table after that one.
    Page { table: Table, after: Option<Key> },
    /// Among those of a ledger, whose rows are found wrong otherwise too unless the log is.
    Ledger,
}

impl Findings {
    /// Whether everything is right.
    pub const fn is_empty(&self) -> bool {
        self.mismatches == 0
    }

    /// Adds those of one bucket or page: how many, and the first of them.
    pub(super) fn add(
        &mut self,
        place: Place,
        mismatches: u64,
        named: impl IntoIterator<Item = Finding>,
    ) {
        if mismatches > 0 {
            self.mismatches += mismatches;
            if let Place::Ledger = place {
                self.unbalanced += mismatches;
            }
            self.buckets += 1;
            self.places.push(place);
            self.name(named);
        }
    }

    /// Adds those of another part.
    pub(super) fn append(&mut self, others: Self) {
        self.mismatches += others.mismatches;
        self.unbalanced += others.unbalanced;
        self.buckets += others.buckets;
        self.places.extend(others.places);
        self.name(others.named);
    }

    fn name(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.named.extend(findings);
        self.named.sort();
        self.named.truncate(NAMED_MAX);
    }
}

impl Finding {
    pub(super) fn of(
        row: &FoundRow,
        table: Table,
        shard: Option<Shard>,
        bucket: Option<Bucket>,
    ) -> Self {
        Self {
            table,
            shard: shard.map(Shard::number),
            bucket,
            account_id: AccountId::from_uuid(row.account_id),
            row: row.row_id.and_then(|row_id| table.id_of(row_id)),
            kind: row.kind,
            columns: row
                .columns
                .split_terminator(", ")
                .map(str::to_owned)
                .collect(),
        }
    }
}
