//! Console sessions: a code lets the owner of an account into the console once, where it is exchanged for an API key
//! that expires soon.

use linkledger_core::{
    api_key::ApiKey,
    console_code::{self, ConsoleCode},
    id::KeyId,
    timestamp,
};
use linkledger_event_store::console_sessions::{self, ConsoleSession};
use linkledger_http::admin_views::ShownSecret;
use serde::Serialize;
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use super::{
    author::Request,
    error::{AdminError, AdminRefusal, AdminResult, violates},
    key::{self, IssueKey, NewSecret},
    operator,
};

/// Time after which the key of a console expires.
pub const KEY_LIFETIME: Duration = Duration::hours(8);
/// Name of the key of a console.
pub const KEY_NAME: &str = "console session";

const ACCOUNT_KNOWN: &str = "console_sessions_account_known";

/// Code of a new session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedConsole {
    /// The code, which is stored nowhere.
    pub code: ConsoleCode,
    /// Instant from which the code is refused.
    pub expires_at: OffsetDateTime,
}

/// Key of a console, and the way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnteredConsole {
    /// The key, which is stored nowhere.
    pub api_key: ShownSecret,
    /// Public id of the key.
    pub key_id: KeyId,
    /// Names of the scopes of the key.
    pub scopes: Vec<String>,
    /// Instant from which the key is refused.
    #[serde(with = "timestamp")]
    pub expires_at: OffsetDateTime,
    /// Address to which the console shows a way back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_url: Option<String>,
}

/// Opens a session. Appends no event: each call makes another code.
///
/// # Errors
/// Returns an error if the account does not exist, or the database fails.
pub async fn open(pool: &PgPool, session: &ConsoleSession) -> AdminResult<OpenedConsole> {
    let code = ConsoleCode::generate();
    match console_sessions::insert(pool, &code, session, console_code::LIFETIME).await {
        Ok(expires_at) => Ok(OpenedConsole { code, expires_at }),
        Err(error) if violates(&error, &[ACCOUNT_KNOWN]) => {
            Err(AdminRefusal::AccountNotFound(session.account_id).into())
        }
        Err(error) => Err(AdminError::of_statement("store the console session")(error)),
    }
}

/// Finds the session of a code.
///
/// # Errors
/// Returns an error if the code is unknown, was used or has expired, if the admin key that opened the session is not
/// valid any more, or if the database fails.
pub async fn find(pool: &PgPool, code: &ConsoleCode) -> AdminResult<ConsoleSession> {
    let session = console_sessions::find(pool, code).await;
    let session = session.map_err(AdminError::of_statement("look up the console session"))?;
    Ok(session.ok_or(AdminRefusal::ConsoleCodeInvalid)?)
}

/// Exchanges the code of a session for an API key. Of many exchanges of a code one succeeds.
///
/// # Errors
/// Returns an error if the code was used or has expired, or if the database fails.
pub async fn enter(
    request: &Request<'_>,
    code: &ConsoleCode,
    session: ConsoleSession,
) -> AdminResult<EnteredConsole> {
    let mut decision = operator::begin(request, session.account_id).await?;
    let deleted = console_sessions::delete_in_tx(&mut decision.tx, code).await;
    if !deleted.map_err(AdminError::of_statement("delete the console session"))? {
        return Err(AdminRefusal::ConsoleCodeInvalid.into());
    }
    let expires_at = decision.now + KEY_LIFETIME;
    let wanted = IssueKey {
        account: session.account_id,
        scopes: session.scopes,
        name: KEY_NAME.to_owned(),
        expires_at: Some(expires_at),
    };
    let api_key = ApiKey::generate();
    let secret = NewSecret::Generated(api_key.clone());
    let (key, event) = key::issue_in(&mut decision, &wanted, &secret).await?;
    decision.append(&[event]).await?;
    Ok(EnteredConsole {
        api_key: ShownSecret::of(&api_key),
        key_id: key.id,
        scopes: key.scopes,
        expires_at,
        return_url: session.return_url,
    })
}
