//! Who calls: the bearer token, looked up and cached for a moment (contract §8).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header::AUTHORIZATION};
use quick_cache::sync::Cache;
use sqlx::PgPool;

use crate::{
    api_key::{ApiKey, Scope},
    clock::Clock,
    event_store::api_keys::{self, StoredKey},
    id::{AccountId, KeyId},
    problem::{Code, Problem},
};

/// How long a key is trusted without a look-up, in seconds: the bound on a revocation's delay.
const CACHED_FOR: Duration = Duration::from_secs(5);
/// Most keys that are cached.
const CACHED_MAX: usize = 10_000;

/// The account and the key that a request acts with.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The account.
    pub account_id: AccountId,
    /// The key.
    pub key_id: KeyId,
    scopes: Vec<Scope>,
    account_is_suspended: bool,
}

impl Caller {
    /// # Errors
    /// `insufficient_scope` when the key lacks the scope.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let name = scope.as_str();
        let challenge =
            format!("Bearer realm=\"linkledger\", error=\"insufficient_scope\", scope=\"{name}\"");
        Err(Problem::new(
            Code::InsufficientScope,
            format!("The key needs the scope {name}."),
        )
        .with("required_scopes", vec![name])
        .with_header("www-authenticate", challenge))
    }

    /// # Errors
    /// `account_suspended` when an operator has suspended the account.
    pub fn require_active_account(&self) -> Result<(), Problem> {
        if self.account_is_suspended {
            let detail = "An operator has suspended the account.";
            return Err(Problem::new(Code::AccountSuspended, detail));
        }
        Ok(())
    }
}

struct CachedKey {
    key: StoredKey,
    loaded_at: Instant,
}

/// Looks keys up and remembers them for `CACHED_FOR`.
pub struct Authenticator {
    pool: PgPool,
    clock: Arc<dyn Clock>,
    cache: Cache<[u8; 32], Arc<CachedKey>>,
}

impl Authenticator {
    /// An authenticator over the event store.
    pub fn new(pool: PgPool, clock: Arc<dyn Clock>) -> Self {
        Self {
            pool,
            clock,
            cache: Cache::new(CACHED_MAX),
        }
    }

    /// The caller of a request with these headers.
    ///
    /// # Errors
    /// One of the 401 problems, or `storage_unavailable`.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let key = ApiKey::parse(bearer_token(headers)?).ok_or_else(invalid)?;
        let found = self.find(&key).await.map_err(|error| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "can't look up an API key"
            );
            Problem::storage_unavailable()
        })?;
        let key = &found.ok_or_else(invalid)?.key;
        let now = self.clock.now();
        if key.revoked_at.is_some_and(|at| at <= now) {
            return Err(rejected(Code::ApiKeyRevoked, "Use another API key."));
        }
        if key.expires_at.is_some_and(|at| at <= now) {
            return Err(rejected(Code::ApiKeyExpired, "Use another API key."));
        }
        Ok(Caller {
            account_id: key.account_id,
            key_id: key.key_id,
            scopes: key.scopes.clone(),
            account_is_suspended: key.account_is_suspended,
        })
    }

    async fn find(&self, key: &ApiKey) -> sqlx::Result<Option<Arc<CachedKey>>> {
        let hash = key.sha256();
        if let Some(cached) = self.cache.get(&hash)
            && cached.loaded_at.elapsed() < CACHED_FOR
        {
            return Ok(Some(cached));
        }
        // Taken before the look-up: the answer is at least as old as that.
        let loaded_at = Instant::now();
        let Some(key) = api_keys::find(&self.pool, key).await? else {
            self.cache.remove(&hash);
            return Ok(None);
        };
        let cached = Arc::new(CachedKey { key, loaded_at });
        self.cache.insert(hash, Arc::clone(&cached));
        Ok(Some(cached))
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<&str, Problem> {
    let value = headers
        .get(AUTHORIZATION)
        .map(axum::http::HeaderValue::as_bytes)
        .unwrap_or_default();
    let space = value
        .iter()
        .position(|byte| *byte == b' ')
        .unwrap_or(value.len());
    let (scheme, token) = value.split_at(space);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        let detail = "Send the header Authorization: Bearer <API key>.";
        return Err(Problem::new(Code::AuthenticationRequired, detail)
            .with_header("www-authenticate", "Bearer realm=\"linkledger\""));
    }
    std::str::from_utf8(token)
        .map(|token| token.trim_matches(' '))
        .map_err(|_| invalid())
}

/// The same for a malformed, a mistyped and an unknown key.
fn invalid() -> Problem {
    rejected(
        Code::ApiKeyInvalid,
        "Check the API key; it is no key of this service.",
    )
}

fn rejected(code: Code, detail: &str) -> Problem {
    let challenge = "Bearer realm=\"linkledger\", error=\"invalid_token\"";
    Problem::new(code, detail).with_header("www-authenticate", challenge)
}
