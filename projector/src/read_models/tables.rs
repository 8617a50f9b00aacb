//! Read tables, and the generation of a read model whose rows they hold.

use linkledger_core::id::{EntryId, LinkId};
use serde::Serialize;
use uuid::Uuid;

use super::Projection;

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
    pub(crate) fn id_of(self, row_id: Uuid) -> Option<String> {
        match self {
            Self::Links | Self::Redirects => Some(LinkId::from_uuid(row_id).to_string()),
            Self::CreditEntries => Some(EntryId::from_uuid(row_id).to_string()),
            Self::StoppedAccounts | Self::CreditBalances => None,
        }
    }
}

/// A generation of a read model.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The read model.
    pub projection: Projection,
    /// Live or not; each is compared at its own checkpoints.
    pub generation: i32,
}
