//! The accounts of a shard: their streams, their balances, and what their rows said at a moment
//! that is not the end of the log.

use std::collections::HashMap;

use linkledger_core::{
    account::AccountStatus,
    credits::CreditsEvent,
    event::Event,
    event_store::accounts::AccountAtHead,
    id::AccountId,
    shard::{Position, Shard},
};

use super::findings::Findings;

/// What is known of the accounts.
#[derive(Debug)]
pub(super) struct Accounts {
    shard: Shard,
    /// Every account with an event up to here had its row when the rows were read.
    rows_known_up_to: Position,
    known: HashMap<AccountId, Account>,
}

/// An account after its last event so far. What an event that can't be read has made of it is not
/// known until a later one says it.
#[derive(Debug)]
struct Account {
    version: i64,
    balance: Option<i64>,
    status: Option<AccountStatus>,
    row: Row,
}

#[derive(Debug)]
enum Row {
    /// To be compared when its version is reached.
    Waiting(AccountAtHead),
    /// Compared.
    Seen(AccountAtHead),
    /// Something is wrong with it, and was told.
    Told,
    /// The account came into being after the rows were read.
    Later,
}

/// An event of an account's stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfAccount<'a> {
    pub(super) account_id: AccountId,
    pub(super) position: Position,
    pub(super) version: i64,
    /// `None`: it can't be read.
    pub(super) event: Option<&'a Event>,
}

impl Accounts {
    pub(super) fn new(
        shard: Shard,
        rows: Vec<AccountAtHead>,
        rows_known_up_to: Position,
        findings: &mut Findings,
    ) -> Self {
        let mut known = HashMap::with_capacity(rows.len());
        for row in rows {
            let account_id = row.account_id;
            let mut account = Account::new(Row::Waiting(row));
            account.compare(0, |what| {
                findings.add(shard, None, || format!("{account_id}: {what}"));
            });
            if Shard::of(account_id) != shard {
                findings.add(shard, None, || {
                    let right = Shard::of(account_id);
                    format!("{account_id}: its row names this shard, but it belongs to {right}")
                });
            }
            known.insert(account_id, account);
        }
        Self {
            shard,
            rows_known_up_to,
            known,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// Looks at the account of any event.
    pub(super) fn meet(
        &mut self,
        account_id: AccountId,
        position: Position,
        findings: &mut Findings,
    ) {
        let (shard, is_row_due) = (self.shard, position <= self.rows_known_up_to);
        self.known.entry(account_id).or_insert_with(|| {
            let right = Shard::of(account_id);
            if right != shard {
                findings.add(shard, Some(position), || {
                    format!("{account_id} belongs to shard {right}")
                });
            } else if is_row_due {
                findings.add(shard, Some(position), || {
                    format!("there is no account {account_id}")
                });
            }
            Account::new(Row::Later)
        });
    }

    /// Applies an event of an account's own stream, whose account was met.
    pub(super) fn apply(&mut self, it: OfAccount<'_>, findings: &mut Findings) {
        let Some(account) = self.known.get_mut(&it.account_id) else {
            return;
        };
        let shard = self.shard;
        let mut found = |what: String| {
            findings.add(shard, Some(it.position), || {
                format!("{}: {what}", it.account_id)
            });
        };
        if it.version != account.version + 1 {
            found(follows(it.version, account.version));
        }
        account.version = it.version;
        match it.event {
            Some(Event::Credits(event)) => {
                let before = account.balance.replace(event.balance_after());
                if let Some(what) = wrong_balance(before, event) {
                    found(what);
                }
            }
            Some(Event::Account(event)) => {
                // What it was before makes no difference.
                let before = account.status.unwrap_or(AccountStatus::Active);
                account.status = Some(before.apply(event));
            }
            Some(Event::Link(_)) => {}
            None => (account.balance, account.status) = (None, None),
        }
        account.compare(it.position, found);
    }

    /// At the end of the log.
    pub(super) fn finish(self, findings: &mut Findings) {
        for (account_id, account) in self.known {
            if let Row::Waiting(row) = account.row {
                findings.add(self.shard, None, || {
                    format!(
                        "{account_id}: its row has version {}, but its last event has version {}",
                        row.credits.version, account.version
                    )
                });
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

    /// Compares the row, if it was read at this very version; an event after that version must have
    /// come after the row was read.
    fn compare(&mut self, position: Position, found: impl FnOnce(String)) {
        let version = self.version;
        match self.row {
            Row::Waiting(row) if row.credits.version == version => {
                self.row = Row::Seen(row);
                let has = row.credits.balance;
                if let Some(expected) = self.balance.filter(|expected| *expected != has) {
                    found(format!(
                        "its row has the balance {has} at version {version}, its events come to \
                         {expected}"
                    ));
                } else if let Some(expected) = self.status.filter(|it| *it != row.status) {
                    found(format!(
                        "its row says {:?} at version {version}, its events say {expected:?}",
                        row.status
                    ));
                }
            }
            Row::Seen(row) if position <= row.head => {
                self.row = Row::Told;
                found(format!(
                    "its row has version {}, and this event came before the row was read",
                    row.credits.version
                ));
            }
            Row::Waiting(_) | Row::Seen(_) | Row::Told | Row::Later => {}
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
                "balance_after is {after}, but {before} {sign} {amount} is not"
            ));
        }
    }
    (after < 0).then(|| format!("balance_after is {after}, below 0"))
}
