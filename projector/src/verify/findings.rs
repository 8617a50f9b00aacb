//! What a verification finds wrong: rows by table, bucket and account.

use linkledger_core::{
    id::{AccountId, EntryId, LinkId},
    shard::{Position, Shard},
};
use serde::Serialize;
use uuid::Uuid;

use super::superfluous::Key;
use crate::projections::Projection;

/// Most rows that are named; all are counted.
pub const NAMED_MAX: usize = 100;

/// A read table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Of `links`.
    Links,
    /// Of `redirects`.
    Redirects,
    /// Of `redirects`.
    StoppedAccounts,
    /// Of `credits`.
    CreditBalances,
    /// Of `credits`.
    CreditEntries,
}

impl Table {
    /// The tables of a projection.
    pub const fn of(projection: Projection) -> &'static [Self] {
        match projection {
            Projection::Credits => &[Self::CreditBalances, Self::CreditEntries],
            Projection::Links => &[Self::Links],
            Projection::Redirects => &[Self::Redirects, Self::StoppedAccounts],
        }
    }

    /// The name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Redirects => "redirects",
            Self::StoppedAccounts => "stopped_accounts",
            Self::CreditBalances => "credit_balances",
            Self::CreditEntries => "credit_entries",
        }
    }

    /// The id of a row as it is shown; of some tables the account says which row it is.
    fn id_of(self, row_id: Uuid) -> Option<String> {
        match self {
            Self::Links | Self::Redirects => Some(LinkId::from_uuid(row_id).to_string()),
            Self::CreditEntries => Some(EntryId::from_uuid(row_id).to_string()),
            Self::StoppedAccounts | Self::CreditBalances => None,
        }
    }
}

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The log wants it and it is not there.
    Missing,
    /// It is there and says something else than the log.
    Different,
    /// It is there and the log does not want it.
    Superfluous,
    /// It does not add up: an entry with the one before it, or a balance with the last entry.
    Unbalanced,
}

impl Kind {
    /// The name in JSON, and for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Different => "different",
            Self::Superfluous => "superfluous",
            Self::Unbalanced => "unbalanced",
        }
    }
}

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

/// A stretch of a shard's log whose rows are compared at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bucket {
    /// The place of its first event.
    pub first: Position,
    /// The place of its last event.
    pub last: Position,
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

/// A row that is wrong as statements name it.
#[derive(Debug)]
pub(super) struct FoundRow {
    pub(super) kind: Kind,
    pub(super) account_id: Uuid,
    pub(super) row_id: Option<Uuid>,
    pub(super) columns: String,
}

impl FoundRow {
    pub(super) fn into_finding(
        self,
        table: Table,
        shard: Option<Shard>,
        bucket: Option<Bucket>,
    ) -> Finding {
        Finding {
            table,
            shard: shard.map(Shard::number),
            bucket,
            account_id: AccountId::from_uuid(self.account_id),
            row: self.row_id.and_then(|row_id| table.id_of(row_id)),
            kind: self.kind,
            columns: self
                .columns
                .split_terminator(", ")
                .map(str::to_owned)
                .collect(),
        }
    }
}
