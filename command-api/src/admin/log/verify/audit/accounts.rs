//! Accounts of a shard during a check: streams, balances, and rows that were read before the end of
//! the log.

use std::collections::HashMap;

use linkledger_core::{
    account::AccountStatus,
    credits::CreditsEvent,
    event::Event,
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::{accounts::AccountAtHead, log::stored::StoredEvent};

use super::findings::Findings;

/// Accounts of the rows and of the checked events.
#[derive(Debug)]
pub(super) struct Accounts {
    shard: Shard,
    /// Position up to which every account of an event had a row when the rows were read.
    rows_known_up_to: Position,
    by_id: HashMap<AccountId, Account>,
}

/// Account after its last checked event. After an unreadable event, balance and status are unknown
/// until a later event names them.
#[derive(Debug)]
struct Account {
    version: i64,
    balance: Option<i64>,
    status: Option<AccountStatus>,
    row: Row,
}

#[derive(Debug)]
enum Row {
    /// The row is compared when the events reach its version.
    Waiting(AccountAtHead),
    /// The row was compared.
    Compared(AccountAtHead),
    /// An event that came before the read of the row, but that the row does not contain, was reported.
    Reported,
    /// There is no row: the account was created after the rows were read, or its absence was reported.
    Absent,
}

impl Accounts {
    pub(super) fn new(
        shard: Shard,
        rows: Vec<AccountAtHead>,
        rows_known_up_to: Position,
        findings: &mut Findings,
    ) -> Self {
        let mut accounts = HashMap::with_capacity(rows.len());
        for row in rows {
            let account_id = row.account_id;
            let mut account = Account::new(Row::Waiting(row));
            if let Some(what) = account.compare(0) {
                findings.add(None, format!("{account_id}: {what}"));
            }
            let correct_shard = Shard::of(account_id);
            if correct_shard != shard {
                let what = "its row names this shard, but the account belongs to shard";
                findings.add(None, format!("{account_id}: {what} {correct_shard}"));
            }
            accounts.insert(account_id, account);
        }
        Self {
            shard,
            rows_known_up_to,
            by_id: accounts,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Checks that the account of any event exists and belongs to the shard.
    pub(super) fn check_account(
        &mut self,
        account_id: AccountId,
        position: Position,
        findings: &mut Findings,
    ) {
        let (shard, is_row_due) = (self.shard, position <= self.rows_known_up_to);
        self.by_id.entry(account_id).or_insert_with(|| {
            let correct_shard = Shard::of(account_id);
            if correct_shard != shard {
                findings.add(
                    Some(position),
                    format!("{account_id} belongs to shard {correct_shard}"),
                );
            } else if is_row_due {
                findings.add(Some(position), format!("there is no account {account_id}"));
            }
            Account::new(Row::Absent)
        });
    }

    /// Applies an event of an account's own stream. Call [`Self::check_account`] first. `event` is
    /// `None` if the event can't be read.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: Option<&Event>,
        findings: &mut Findings,
    ) {
        let Some(account) = self.by_id.get_mut(&stored.account_id) else {
            return;
        };
        let mut found = |what: String| {
            let what = format!("{}: {what}", stored.account_id);
            findings.add(Some(stored.position), what);
        };
        if stored.version != account.version + 1 {
            found(follows(stored.version, account.version));
        }
        account.version = stored.version;
        match event {
            Some(Event::Credits(event)) => {
                let before = account.balance.replace(event.balance_after());
                if let Some(what) = wrong_balance(before, event) {
                    found(what);
                }
            }
            Some(Event::Account(event)) => {
                // The status after the event does not depend on the status before.
                let before = account.status.unwrap_or(AccountStatus::Active);
                account.status = Some(before.apply(event));
            }
            Some(Event::Link(_)) => {}
            None => (account.balance, account.status) = (None, None),
        }
        if let Some(what) = account.compare(stored.position) {
            found(what);
        }
    }

    /// Reports the rows whose version was never reached.
    pub(super) fn finish(self, findings: &mut Findings) {
        for (account_id, account) in self.by_id {
            if let Row::Waiting(row) = account.row {
                let (row, last) = (row.credits.version, account.version);
                let what =
                    format!("its row has version {row}, but its last event has version {last}");
                findings.add(None, format!("{account_id}: {what}"));
            }
        }
    }
}

impl Account {
    fn new(row: Row) -> Self {
        Self {
            version: 0,
            balance: Some(0),
            status: Some(AccountStatus::Active),
            row,
        }
    }

    /// Compares the row when the events reach its version, and returns a finding. Events of later
    /// versions must be newer than the read of the row.
    fn compare(&mut self, position: Position) -> Option<String> {
        let version = self.version;
        match self.row {
            Row::Waiting(row) if row.credits.version == version => {
                self.row = Row::Compared(row);
                let (has, status) = (row.credits.balance, row.status);
                match (self.balance, self.status) {
                    (Some(expected), _) if expected != has => Some(format!(
                        "its row has the balance {has} at version {version}, its events come to \
                         {expected}"
                    )),
                    (_, Some(expected)) if expected != status => Some(format!(
                        "its row says {status:?} at version {version}, its events say {expected:?}"
                    )),
                    _ => None,
                }
            }
            Row::Compared(row) if position <= row.head => {
                self.row = Row::Reported;
                Some(format!(
                    "its row has version {}, without this event, which came before the row was read",
                    row.credits.version
                ))
            }
            Row::Waiting(_) | Row::Compared(_) | Row::Reported | Row::Absent => None,
        }
    }
}

pub(super) fn follows(version: i64, before: i64) -> String {
    match before {
        0 => format!("version {version} is the first of its stream"),
        _ => format!("version {version} follows version {before}"),
    }
}

fn wrong_balance(before: Option<i64>, event: &CreditsEvent) -> Option<String> {
    let (sign, amount) = match event {
        CreditsEvent::Granted(granted) => ('+', granted.amount),
        CreditsEvent::Adjusted(adjusted) => ('+', adjusted.amount),
        CreditsEvent::Charged(charged) => ('-', charged.amount),
    };
    let after = event.balance_after();
    if let Some(before) = before {
        let expected = match sign {
            '-' => before.checked_sub(amount),
            _ => before.checked_add(amount),
        };
        if expected != Some(after) {
            return Some(format!(
                "balance_after is {after} instead of {before} {sign} {amount}"
            ));
        }
    }
    (after < 0).then(|| format!("balance_after is {after}, below 0"))
}
