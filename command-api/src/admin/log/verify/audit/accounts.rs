//! Accounts of a shard during a check: streams, balances, names and states, and rows that were read before the end of
//! the log. An account takes about 200 bytes: texts are kept as hashes.

mod profile;

use std::collections::HashMap;

use linkledger_core::{
    account::{Account, AccountAfter, AccountEvent},
    credits::{CreditsCharged, CreditsEvent, LowBalanceAt},
    envelope::Metadata,
    event::Event,
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::{accounts::AccountAtHead, log::stored::StoredEvent};

use super::{
    findings::Findings,
    texts::{TextHash, Texts},
};
use profile::Profile;

/// Prefix of the idempotency key of an account's creation in the log; the row has the key without it.
const CREATION_PREFIX: &str = "account:";

const UNSOUND: &str =
    "what the account is after it, by its metadata, is not what its events come to";

/// Accounts of the rows and of the checked events.
#[derive(Debug)]
pub(super) struct Accounts {
    shard: Shard,
    texts: Texts,
    /// Position up to which every account of an event had a row when the rows were read.
    rows_known_up_to: Position,
    by_id: HashMap<AccountId, AccountAudit>,
}

/// Row of an account.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct AccountRow {
    account_id: AccountId,
    version: i64,
    balance: i64,
    profile: Profile,
    creation_key: TextHash,
    /// Head of the shard at which the row was read.
    head: Position,
}

/// Account after its last checked event. After an unreadable event, balance and profile are unknown
/// until a later event names them.
#[derive(Debug)]
struct AccountAudit {
    version: i64,
    balance: Option<i64>,
    /// Name, external id, status and time of creation; `None` before the creation too.
    profile: Option<Profile>,
    /// Thresholds of the balance while the profile is known. Most accounts have none, which takes no memory.
    low_balance_at: Box<[i64]>,
    /// Idempotency key of the creation, if the creation was read.
    creation_key: Option<TextHash>,
    row: Row,
}

#[derive(Debug)]
enum Row {
    /// The row is compared when the events reach its version.
    Waiting(AccountRow),
    /// The row was compared.
    Compared(AccountRow),
    /// An event that came before the read of the row, but that the row does not contain, was reported.
    Reported,
    /// There is no row: the account was created after the rows were read, or its absence was reported.
    Absent,
}

impl AccountRow {
    pub(in super::super) fn of(texts: &Texts, row: &AccountAtHead) -> Self {
        Self {
            account_id: row.account.account_id,
            version: row.credits.version,
            balance: row.credits.balance,
            profile: Profile::of(texts, &row.account),
            creation_key: texts.hash(row.creation_key.as_deref()),
            head: row.head,
        }
    }
}

impl Accounts {
    pub(super) fn new(
        shard: Shard,
        rows: Vec<AccountRow>,
        rows_known_up_to: Position,
        texts: Texts,
        findings: &mut Findings,
    ) -> Self {
        let mut accounts = HashMap::with_capacity(rows.len());
        for row in rows {
            let account_id = row.account_id;
            if row.version == 0 {
                let what = "its row has no event; its AccountCreated is missing";
                findings.add(None, format!("{account_id}: {what}"));
            }
            let correct_shard = Shard::of(account_id);
            if correct_shard != shard {
                let what = "its row names this shard, but the account belongs to shard";
                findings.add(None, format!("{account_id}: {what} {correct_shard}"));
            }
            accounts.insert(account_id, AccountAudit::new(Row::of(row)));
        }
        Self {
            shard,
            texts,
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
            AccountAudit::new(Row::Absent)
        });
    }

    /// Applies an event of an account's own stream. Call [`Self::check_account`] first. `event` is
    /// `None` if the event can't be read, `metadata` if the metadata can't.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: Option<&Event>,
        metadata: Option<&Metadata>,
        findings: &mut Findings,
    ) {
        let Some(account) = self.by_id.get_mut(&stored.account_id) else {
            return;
        };
        let mut found = |what: String| {
            let what = format!("{}: {what}", stored.account_id);
            findings.add(Some(stored.position), what);
        };
        account.take_version(stored, event, &mut found);
        match event {
            Some(Event::Credits(event)) => {
                let before = account.balance.replace(event.balance_after());
                if let Some(what) = wrong_balance(before, event) {
                    found(what);
                }
                if let CreditsEvent::Charged(charged) = event
                    && let Some(what) = account.wrong_low_balance(charged)
                {
                    found(what);
                }
            }
            Some(Event::Account(event)) => {
                account.apply(&self.texts, stored, event, &mut found);
                if let Some(metadata) = metadata {
                    let after = metadata.account.as_ref();
                    account.compare_after(&self.texts, after, &mut found);
                }
            }
            Some(Event::ApiKey(_) | Event::Webhook(_) | Event::Observation(_) | Event::Link(_)) => {
            }
            None => (account.balance, account.profile) = (None, None),
        }
        if let Some(what) = account.compare(stored.position) {
            found(what);
        }
    }

    /// Reports the rows whose version was never reached.
    pub(super) fn finish(self, findings: &mut Findings) {
        for (account_id, account) in self.by_id {
            if let Row::Waiting(row) = account.row {
                let (row, last) = (row.version, account.version);
                let what =
                    format!("its row has version {row}, but its last event has version {last}");
                findings.add(None, format!("{account_id}: {what}"));
            }
        }
    }
}

impl Row {
    fn of(row: AccountRow) -> Self {
        match row.version {
            0 => Self::Compared(row),
            _ => Self::Waiting(row),
        }
    }
}

impl AccountAudit {
    fn new(row: Row) -> Self {
        Self {
            version: 0,
            balance: Some(0),
            profile: None,
            low_balance_at: Box::default(),
            creation_key: None,
            row,
        }
    }

    /// Checks that the version follows, and that a stream begins with its creation.
    fn take_version(
        &mut self,
        stored: &StoredEvent<'_>,
        event: Option<&Event>,
        found: &mut impl FnMut(String),
    ) {
        if stored.version != self.version + 1 {
            found(follows(stored.version, self.version));
        }
        let is_creation =
            event.map(|event| matches!(event, Event::Account(AccountEvent::Created(_))));
        match (self.version, stored.version, is_creation) {
            // A gap is already reported as a fault of the version.
            (0, 1, Some(false)) => {
                found("its stream begins with this, not with AccountCreated".to_owned());
            }
            (1.., _, Some(true)) => found("it was created before".to_owned()),
            _ => {}
        }
        self.version = stored.version;
    }

    fn apply(
        &mut self,
        texts: &Texts,
        stored: &StoredEvent<'_>,
        event: &AccountEvent,
        found: &mut impl FnMut(String),
    ) {
        if let AccountEvent::Created(created) = event {
            let account = Account::new(created, stored.recorded_at);
            self.profile = Some(Profile::of(texts, &account));
            self.low_balance_at = created.low_balance_at.as_slice().into();
            let key = stored.idempotency_key;
            let key = key.and_then(|key| key.strip_prefix(CREATION_PREFIX));
            self.creation_key = Some(texts.hash(key));
        } else if let Some(profile) = &mut self.profile
            && let Some(what) = profile.apply(texts, event)
        {
            found(what);
        }
        if let AccountEvent::Changed(changed) = event
            && let Some(change) = &changed.changes.low_balance_at
        {
            self.low_balance_at = change.to.as_slice().into();
        }
    }

    /// Compares the crossed threshold of a charge with that of its own numbers, and returns a finding. Without a
    /// profile the thresholds are unknown.
    fn wrong_low_balance(&self, charged: &CreditsCharged) -> Option<String> {
        self.profile?;
        let before = charged.balance_after.saturating_add(charged.amount);
        let thresholds = LowBalanceAt::stored(&self.low_balance_at);
        let expected = thresholds.crossed_by(before, charged.balance_after);
        let shown = |threshold: Option<i64>| {
            threshold.map_or_else(|| "absent".to_owned(), |it| it.to_string())
        };
        (expected != charged.low_balance).then(|| {
            let has = shown(charged.low_balance);
            format!("low_balance is {has} instead of {}", shown(expected))
        })
    }

    /// Compares the account with the one in the metadata of its event, which tells what is unknown.
    fn compare_after(
        &mut self,
        texts: &Texts,
        after: Option<&AccountAfter>,
        found: &mut impl FnMut(String),
    ) {
        let Some(after) = after else {
            found("the metadata don't say what the account is after it".to_owned());
            return;
        };
        let profile = Profile::of_after(texts, after);
        let balance = *self.balance.get_or_insert(after.balance);
        if balance != after.balance {
            let has = after.balance;
            found(format!("{UNSOUND}: balance {has} instead of {balance}"));
        }
        if self.profile.is_none() {
            self.low_balance_at = after.low_balance_at.as_slice().into();
        }
        let expected = *self.profile.get_or_insert(profile);
        if let Some(member) = profile.difference(&expected) {
            found(format!("{UNSOUND}: {member}"));
        }
    }

    /// Compares the row when the events reach its version, and returns a finding. Events of later
    /// versions must be newer than the read of the row.
    fn compare(&mut self, position: Position) -> Option<String> {
        match self.row {
            Row::Waiting(row) if row.version == self.version => {
                self.row = Row::Compared(row);
                self.wrong_row(&row)
            }
            Row::Compared(row) if position <= row.head => {
                self.row = Row::Reported;
                Some(format!(
                    "its row has version {}, without this event, which came before the row was read",
                    row.version
                ))
            }
            Row::Waiting(_) | Row::Compared(_) | Row::Reported | Row::Absent => None,
        }
    }

    fn wrong_row(&self, row: &AccountRow) -> Option<String> {
        let (version, has) = (self.version, row.balance);
        if let Some(expected) = self.balance.filter(|expected| *expected != has) {
            return Some(format!(
                "its row has the balance {has} at version {version}, its events come to {expected}"
            ));
        }
        let profile = self.profile.as_ref();
        if let Some(member) = profile.and_then(|expected| row.profile.difference(expected)) {
            return Some(format!(
                "its row at version {version} is not what its events come to: {member}"
            ));
        }
        let key = self.creation_key.filter(|key| *key != row.creation_key);
        key.map(|_| {
            "its row has another creation_key than the idempotency key of its AccountCreated"
                .to_owned()
        })
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
        CreditsEvent::Refunded(refunded) => ('+', refunded.amount),
        CreditsEvent::Revoked(revoked) => ('-', revoked.amount),
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
