//! Outcomes of the functions on accounts, keys, credits and links. The command line and the admin API render the
//! same ones.

use linkledger_core::{
    credits::CreditsError,
    id::{AccountId, AdminKeyId, DeliveryId, EntryId, KeyId, LinkId, WebhookId},
    link::LinkName,
    shard::Position,
    timestamp,
    webhook::WEBHOOKS_OF_ACCOUNT_MAX,
};
use linkledger_event_store::errors::is_transient;
use linkledger_http::problem::Code;
use serde_json::json;
use time::OffsetDateTime;

/// Result of a function that changes something.
pub type AdminResult<T> = Result<T, AdminError>;

/// Outcome of a request: its own effect, that of an earlier request with the same idempotency key, or none
/// because everything was as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done<T> {
    /// Answer to the request.
    pub value: T,
    /// True if an earlier request with the same idempotency key had the effect.
    pub replayed: bool,
    /// Position of the last event of the effect, for a `Consistency-Token`; `None` if nothing was to be changed.
    pub position: Option<Position>,
}

impl<T> Done<T> {
    /// Returns the outcome of a request that found everything as requested.
    pub(super) const fn unchanged(value: T) -> Self {
        Self {
            value,
            replayed: false,
            position: None,
        }
    }

    /// Returns true if this request has changed something, and no earlier one.
    pub const fn has_changed(&self) -> bool {
        self.position.is_some() && !self.replayed
    }
}

/// Reason why a request has no known effect.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The request is refused; nothing was done.
    #[error(transparent)]
    Refused(#[from] AdminRefusal),
    /// The database does not answer, or another transaction held a lock for too long; nothing was done, and a retry
    /// may succeed.
    #[error(transparent)]
    Unavailable(anyhow::Error),
    /// The database may have committed. A retry with the same idempotency key, or a repeated change, is safe.
    #[error(transparent)]
    OutcomeUnknown(anyhow::Error),
    /// A defect of the service or of stored data; nothing was done.
    #[error(transparent)]
    Failed(anyhow::Error),
}

/// Reason why a request is refused. Each text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminRefusal {
    /// There is no such account.
    #[error("there is no account {0}; check the id")]
    AccountNotFound(AccountId),
    /// There is no such key.
    #[error("there is no key {0}; check the id")]
    KeyNotFound(KeyId),
    /// There is no such admin key.
    #[error("there is no admin key {0}; check the id")]
    AdminKeyNotFound(AdminKeyId),
    /// The code opens no console: it is unknown, was used, or has expired.
    #[error(
        "the code opens no console: it is unknown, was used, or has expired; open the console again"
    )]
    ConsoleCodeInvalid,
    /// There is no such link.
    #[error("there is no link {0}; check its name")]
    LinkNotFound(LinkName),
    /// The link is deleted.
    #[error("link {0} is deleted; nothing is to be done, its short address leads nowhere")]
    LinkDeleted(LinkId),
    /// The ledger of the account has no such entry.
    #[error("the account has no entry {0}; check the id and the account")]
    EntryNotFound(EntryId),
    /// The entry to refund is not a charge.
    #[error("entry {0} is not a charge; a refund gives back a charge")]
    NotACharge(EntryId),
    /// The entry to revoke is not a grant.
    #[error("entry {0} is not a grant; a revocation takes back a grant")]
    NotAGrant(EntryId),
    /// Another account has the external id.
    #[error("account {account_id} has this external id; change that account, or choose another id")]
    ExternalIdTaken {
        /// Account with the external id.
        account_id: AccountId,
    },
    /// The external id belongs to the account of the operators.
    #[error(
        "this external id belongs to the account of the operators' webhooks; choose another id"
    )]
    ExternalIdReserved,
    /// There is no such webhook, or another account has it.
    #[error("there is no webhook {0}; check the id")]
    WebhookNotFound(WebhookId),
    /// The webhook has no such delivery.
    #[error("the webhook has no delivery {0}; check the id")]
    DeliveryNotFound(DeliveryId),
    /// The owner has as many webhooks as there may be.
    #[error("there are {count} webhooks, the most there may be; delete one first",
            count = WEBHOOKS_OF_ACCOUNT_MAX)]
    WebhookLimitReached,
    /// A replay of the webhook is running.
    #[error("a replay of webhook {0} is running; wait for its end")]
    ReplayInProgress(WebhookId),
    /// The webhook to replay is disabled.
    #[error("webhook {0} is disabled, so a replay would send nothing; enable it first")]
    WebhookDisabled(WebhookId),
    /// Too many deliveries of the webhook wait.
    #[error("too many deliveries of webhook {0} wait; retry later")]
    DeliveriesWait(WebhookId),
    /// There is no event to start a replay after, or another account has it.
    #[error("there is no such event; check the id")]
    EventUnknown,
    /// The installation lacks the master key, of this id, from which the secret is derived.
    #[error("the master key `{0}` of this secret is not in WEBHOOK_KEYS_FILE: rotate the secret")]
    MasterKeyMissing(String),
    /// The idempotency key was used for another request of the kind.
    #[error("this idempotency key was used for another {kind}; use a new key")]
    IdempotencyKeyReused {
        /// Kind of both requests.
        kind: &'static str,
    },
    /// An earlier request has given the charge back.
    #[error("the charge {0} was given back before; nothing is left to do")]
    AlreadyRefunded(EntryId),
    /// An earlier request has taken the grant back.
    #[error("the grant {0} was taken back before; to take more, adjust the balance")]
    AlreadyRevoked(EntryId),
    /// The key can be neither changed nor rotated.
    #[error("key {key_id} {because}; issue a new key instead")]
    KeyNotValid {
        /// The key.
        key_id: KeyId,
        /// End of its validity.
        because: KeyEnd,
    },
    /// Another key has the same secret.
    #[error("a key with this secret was issued before; make a new secret")]
    SecretTaken,
    /// The expiry is in the past.
    #[error("the expiry is in the past; give an instant in the future")]
    ExpiryInPast,
    /// The amount is not allowed, or the balance would leave its range.
    #[error("{0}; {advice}", advice = remedy(.0))]
    Credits(CreditsError),
}

/// End of the validity of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEnd {
    /// The key is revoked, or was rotated and ends after an overlap.
    Revoked(OffsetDateTime),
    /// The key has expired.
    Expired(OffsetDateTime),
}

impl std::fmt::Display for KeyEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Revoked(at) => write!(f, "is revoked from {} on", timestamp::format(*at)),
            Self::Expired(at) => write!(f, "has expired at {}", timestamp::format(*at)),
        }
    }
}

const fn remedy(error: &CreditsError) -> &'static str {
    match error {
        CreditsError::Insufficient(_) => "take at most the balance, or grant credits first",
        CreditsError::AmountNotPositive
        | CreditsError::AmountIsZero
        | CreditsError::BalanceNegative
        | CreditsError::BalanceTooLarge => "give another number of credits",
    }
}

impl AdminRefusal {
    /// Returns the code of the problem, as the admin API answers it.
    pub const fn code(&self) -> Code {
        match self {
            Self::AccountNotFound(_) => Code::AccountNotFound,
            Self::KeyNotFound(_) | Self::AdminKeyNotFound(_) => Code::KeyNotFound,
            Self::ConsoleCodeInvalid => Code::ConsoleCodeInvalid,
            Self::LinkNotFound(_) | Self::LinkDeleted(_) => Code::LinkNotFound,
            Self::EntryNotFound(_) | Self::NotACharge(_) | Self::NotAGrant(_) => {
                Code::EntryNotFound
            }
            Self::ExternalIdTaken { .. } => Code::ExternalIdTaken,
            Self::WebhookNotFound(_) => Code::WebhookNotFound,
            Self::DeliveryNotFound(_) => Code::DeliveryNotFound,
            Self::WebhookLimitReached => Code::WebhookLimitReached,
            Self::ReplayInProgress(_) => Code::ReplayInProgress,
            Self::WebhookDisabled(_) => Code::WebhookDisabled,
            Self::DeliveriesWait(_) => Code::Overloaded,
            Self::MasterKeyMissing(_) => Code::WebhooksOff,
            Self::IdempotencyKeyReused { .. } => Code::IdempotencyKeyReused,
            Self::AlreadyRefunded(_) => Code::AlreadyRefunded,
            Self::AlreadyRevoked(_) => Code::AlreadyRevoked,
            Self::KeyNotValid { .. } => Code::KeyNotValid,
            Self::Credits(CreditsError::Insufficient(_)) => Code::InsufficientCredits,
            Self::SecretTaken
            | Self::ExpiryInPast
            | Self::ExternalIdReserved
            | Self::EventUnknown
            | Self::Credits(_) => Code::ValidationFailed,
        }
    }

    /// Returns the exit code of a command: 4 for something that does not exist, 5 for a conflict with what was done
    /// before, 6 for any other refusal.
    const fn exit_code(&self) -> u8 {
        match self {
            Self::AccountNotFound(_)
            | Self::KeyNotFound(_)
            | Self::AdminKeyNotFound(_)
            | Self::ConsoleCodeInvalid
            | Self::LinkNotFound(_)
            | Self::LinkDeleted(_)
            | Self::EntryNotFound(_)
            | Self::NotACharge(_)
            | Self::NotAGrant(_)
            | Self::WebhookNotFound(_)
            | Self::DeliveryNotFound(_)
            | Self::EventUnknown => 4,
            Self::ExternalIdTaken { .. }
            | Self::WebhookLimitReached
            | Self::ReplayInProgress(_)
            | Self::WebhookDisabled(_)
            | Self::IdempotencyKeyReused { .. }
            | Self::AlreadyRefunded(_)
            | Self::AlreadyRevoked(_)
            | Self::KeyNotValid { .. }
            | Self::SecretTaken => 5,
            Self::ExpiryInPast | Self::ExternalIdReserved | Self::Credits(_) => 6,
            Self::DeliveriesWait(_) | Self::MasterKeyMissing(_) => 7,
        }
    }
}

impl AdminError {
    /// Returns the error of a statement that has failed before the commit. `doing` completes "cannot …".
    pub(super) fn of_statement(doing: &str) -> impl Fn(sqlx::Error) -> Self {
        move |error| {
            if is_transient(&error) {
                let told = format!("cannot {doing}; nothing was done, retry");
                return Self::Unavailable(anyhow::Error::new(error).context(told));
            }
            Self::Failed(anyhow::Error::new(error).context(format!("cannot {doing}")))
        }
    }

    /// Returns the error of stored data that do not fit the request.
    pub(super) fn unreadable(event: impl std::fmt::Display) -> Self {
        Self::Failed(anyhow::anyhow!("the stored event cannot be read: {event}"))
    }

    /// Returns the exit code of a command: that of the refusal, 7 if a retry may succeed, 1 for a defect.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(refusal) => refusal.exit_code(),
            Self::Unavailable(_) | Self::OutcomeUnknown(_) => 7,
            Self::Failed(_) => 1,
        }
    }

    /// Returns the code of the problem, as the admin API answers it.
    pub const fn code(&self) -> Code {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Unavailable(_) => Code::StorageUnavailable,
            Self::OutcomeUnknown(_) => Code::DeadlineExceeded,
            Self::Failed(_) => Code::InternalError,
        }
    }
}

/// Returns true if the error is the violation of one of the constraints.
pub(super) fn violates(error: &sqlx::Error, constraints: &[&str]) -> bool {
    let violated = error
        .as_database_error()
        .and_then(|error| error.constraint());
    violated.is_some_and(|violated| constraints.contains(&violated))
}

/// Returns the exit code of a command that has failed.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref().map_or(1, AdminError::exit_code)
}

/// Returns the failure of a command as one JSON object, for programs. `detail` is the text for people.
pub(crate) fn problem(error: &anyhow::Error, detail: &str) -> String {
    let code = error
        .downcast_ref()
        .map_or(Code::InternalError, AdminError::code);
    json!({ "code": code.as_str(), "detail": detail }).to_string()
}

#[cfg(test)]
mod tests {
    use linkledger_core::credits::InsufficientCredits;

    use super::*;

    #[test]
    fn exit_code_tells_kinds_of_failures_apart() {
        let account = "acc_01h455vb4pex5vsknk084sn02q".parse().unwrap();
        let entry = "ent_01h455vb4pex5vsknk084sn02q".parse().unwrap();
        let insufficient = CreditsError::Insufficient(InsufficientCredits {
            balance: 2,
            required: 3,
        });
        for (refusal, exit_code, code) in [
            (
                AdminRefusal::AccountNotFound(account),
                4,
                "account_not_found",
            ),
            (AdminRefusal::NotAGrant(entry), 4, "entry_not_found"),
            (AdminRefusal::AlreadyRevoked(entry), 5, "already_revoked"),
            (AdminRefusal::SecretTaken, 5, "validation_failed"),
            (AdminRefusal::ExpiryInPast, 6, "validation_failed"),
            (
                AdminRefusal::Credits(insufficient),
                6,
                "insufficient_credits",
            ),
        ] {
            let error = AdminError::from(refusal);
            assert_eq!(
                (error.exit_code(), error.code().as_str()),
                (exit_code, code)
            );
        }
        let unavailable = AdminError::of_statement("lock the account")(sqlx::Error::PoolTimedOut);
        assert_eq!(unavailable.exit_code(), 7);
        let defect = AdminError::of_statement("lock the account")(sqlx::Error::RowNotFound);
        assert_eq!(defect.exit_code(), 1);
        assert_eq!(super::exit_code(&anyhow::anyhow!("no such file")), 1);
    }

    #[test]
    fn refusal_says_what_to_do() {
        let insufficient = AdminRefusal::Credits(CreditsError::Insufficient(InsufficientCredits {
            balance: 2,
            required: 3,
        }));
        let expected = "the balance in credits is 2, less than 3; take at most the balance, or grant credits first";
        assert_eq!(insufficient.to_string(), expected);
        let error = anyhow::Error::new(AdminError::from(insufficient));
        let expected = format!(r#"{{"code":"insufficient_credits","detail":"{expected}"}}"#);
        assert_eq!(problem(&error, &error.to_string()), expected);
    }
}
