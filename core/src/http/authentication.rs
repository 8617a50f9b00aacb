//! Authenticates the caller: looks up the bearer token and caches it for some seconds
//! (`docs/api.md#api-keys`).

mod found_keys;
mod unknown_key_limit;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::HeaderMap;
use metrics::{Counter, counter};
use quick_cache::sync::Cache;
use sqlx::PgPool;

use self::{found_keys::FoundKeys, unknown_key_limit::UnknownKeyLimit};
use super::{
    bearer::{self, Credentials},
    key_usage::KeyUsage,
};
use crate::{
    api_key::{ApiKey, Scope},
    clock::Clock,
    event_store::{
        api_keys::{self, StoredKey},
        time_limit::{ANSWER_TIME_MAX, within},
    },
    id::{AccountId, KeyId},
    metrics::CACHE_REQUESTS_TOTAL,
    problem::{Code, Problem},
    single_flight::{LoadRole, SingleFlight},
};

/// Time for which a known key is trusted without a look-up, in seconds: the maximal delay of a
/// revocation, an earlier expiry or a suspension in every process.
const KNOWN_KEY_TTL: Duration = Duration::from_secs(5);
/// Time for which an unknown key is refused without a look-up, in seconds: the maximal delay for a
/// key that was tried before it was issued.
const UNKNOWN_KEY_TTL: Duration = Duration::from_secs(1);
/// Default of the maximal number of known keys in the cache, and number of unknown keys.
pub const KEYS_CACHED_MAX: u32 = 10_000;

/// Account and key of an authenticated request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Account of the caller.
    pub account_id: AccountId,
    /// Id of the API key.
    pub key_id: KeyId,
    scopes: Vec<Scope>,
    account_is_suspended: bool,
}

impl Caller {
    /// Checks that the key has the scope.
    ///
    /// # Errors
    /// Returns `insufficient_scope` if the key lacks the scope.
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

    /// Checks that the account is active.
    ///
    /// # Errors
    /// Returns `account_suspended` if an operator has suspended the account.
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
    /// True if the use of the key was recorded since the look-up.
    use_is_recorded: AtomicBool,
}

/// State of a key in the cache.
enum CacheEntry {
    /// The key exists.
    Known(Arc<CachedKey>),
    /// The key existed, but the entry has expired.
    Stale,
    /// The key did not exist at a recent look-up.
    Unknown,
    /// The cache has no entry for the key.
    Missing,
}

/// Looks up keys and caches them for `KNOWN_KEY_TTL`.
pub struct Authenticator {
    pool: PgPool,
    clock: Arc<dyn Clock>,
    known: Cache<[u8; 32], Arc<CachedKey>>,
    /// Separate from `known`, so that a flood of invented keys evicts no real key.
    unknown: Cache<[u8; 32], Instant>,
    unknown_key_limit: UnknownKeyLimit,
    /// Keys whose look-up needs no place in `unknown_key_limit`, even if the cache has evicted them:
    /// a customer never waits behind invented keys.
    found: FoundKeys,
    /// Look-ups in progress, one for each hash of a key.
    look_ups: SingleFlight<[u8; 32], Result<(), Problem>>,
    usage: Arc<KeyUsage>,
    hits: Counter,
    misses: Counter,
}

impl Authenticator {
    /// Returns an authenticator over the event store, with a cache of `keys_cached_max` known keys.
    pub fn new(pool: PgPool, clock: Arc<dyn Clock>, keys_cached_max: u32) -> Self {
        let counter =
            |result| counter!(CACHE_REQUESTS_TOTAL, "cache" => "api_keys", "result" => result);
        Self {
            usage: Arc::new(KeyUsage::new(pool.clone())),
            pool,
            clock,
            known: Cache::new(keys_cached_max as usize),
            unknown: Cache::new(KEYS_CACHED_MAX as usize),
            unknown_key_limit: UnknownKeyLimit::default(),
            found: FoundKeys::default(),
            look_ups: SingleFlight::default(),
            hits: counter("hit"),
            misses: counter("miss"),
        }
    }

    /// Spawns the task that writes the uses of keys to the database.
    #[cfg(feature = "service")]
    pub fn record_uses(&self, tasks: &mut crate::lifecycle::Tasks) {
        let usage = Arc::clone(&self.usage);
        tasks.spawn_housekeeping_until_drained("key usage", move |drained| {
            let usage = Arc::clone(&usage);
            async move {
                usage.run(drained).await;
                Ok(())
            }
        });
    }

    /// Authenticates a request by its headers.
    ///
    /// # Errors
    /// Returns one of the 401 problems, `overloaded` or `storage_unavailable`.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let key = match bearer::credentials(headers) {
            Credentials::Token(token) => ApiKey::parse(token).ok_or_else(invalid)?,
            Credentials::Malformed => return Err(invalid()),
            Credentials::None => {
                let detail = "Send the header Authorization: Bearer <API key>.";
                return Err(Problem::new(Code::AuthenticationRequired, detail)
                    .with_header("www-authenticate", "Bearer realm=\"linkledger\""));
            }
        };
        let found = self.find(&key).await?.ok_or_else(invalid)?;
        let key = &found.key;
        let now = self.clock.now();
        if key.revoked_at.is_some_and(|at| at <= now) {
            return Err(rejected(Code::ApiKeyRevoked, "Use another API key."));
        }
        if key.expires_at.is_some_and(|at| at <= now) {
            return Err(rejected(Code::ApiKeyExpired, "Use another API key."));
        }
        if !found.use_is_recorded.swap(true, Ordering::Relaxed) {
            self.usage.record(key.key_id, now);
        }
        Ok(Caller {
            account_id: key.account_id,
            key_id: key.key_id,
            scopes: key.scopes.clone(),
            account_is_suspended: key.account_is_suspended,
        })
    }

    async fn find(&self, key: &ApiKey) -> Result<Option<Arc<CachedKey>>, Problem> {
        let hash = key.sha256();
        let entry = self.cached(&hash);
        self.count(&entry);
        match entry {
            CacheEntry::Known(key) => return Ok(Some(key)),
            CacheEntry::Unknown => return Ok(None),
            CacheEntry::Stale | CacheEntry::Missing => {}
        }
        match self.look_ups.join(hash) {
            LoadRole::Load(look_up) => {
                let found = self.load(key, hash).await;
                look_up.finish(found.as_ref().map(|_| ()).map_err(Clone::clone));
                found
            }
            LoadRole::Wait(result) => match result.outcome().await {
                Some(Err(problem)) => Err(problem),
                // The result is in the cache, unless the entry has expired meanwhile.
                Some(Ok(())) | None => self.load(key, hash).await,
            },
        }
    }

    async fn load(&self, key: &ApiKey, hash: [u8; 32]) -> Result<Option<Arc<CachedKey>>, Problem> {
        let _permit = match self.cached(&hash) {
            CacheEntry::Known(key) => return Ok(Some(key)),
            CacheEntry::Unknown => return Ok(None),
            CacheEntry::Stale => None,
            CacheEntry::Missing if self.found.may_contain(&hash) => None,
            CacheEntry::Missing => Some(self.unknown_key_limit.acquire().await?),
        };
        self.look_up(key, hash).await.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "cannot look up an API key");
            Problem::storage_unavailable()
        })
    }

    fn count(&self, entry: &CacheEntry) {
        let count = match entry {
            CacheEntry::Known(_) | CacheEntry::Unknown => &self.hits,
            CacheEntry::Stale | CacheEntry::Missing => &self.misses,
        };
        count.increment(1);
    }

    fn cached(&self, hash: &[u8; 32]) -> CacheEntry {
        match self.known.get(hash) {
            Some(key) if key.loaded_at.elapsed() < KNOWN_KEY_TTL => return CacheEntry::Known(key),
            Some(_) => return CacheEntry::Stale,
            None => {}
        }
        match self.unknown.get(hash) {
            Some(at) if at.elapsed() < UNKNOWN_KEY_TTL => CacheEntry::Unknown,
            Some(_) | None => CacheEntry::Missing,
        }
    }

    async fn look_up(&self, key: &ApiKey, hash: [u8; 32]) -> sqlx::Result<Option<Arc<CachedKey>>> {
        // Taken before the look-up, so that the age of the entry is never underestimated.
        let loaded_at = Instant::now();
        let finding = api_keys::find(&self.pool, key);
        let Some(key) = within(ANSWER_TIME_MAX, finding).await? else {
            self.known.remove(&hash);
            self.unknown.insert(hash, loaded_at);
            return Ok(None);
        };
        let cached = Arc::new(CachedKey {
            key,
            loaded_at,
            use_is_recorded: AtomicBool::new(false),
        });
        self.found.insert(&hash);
        self.known.insert(hash, Arc::clone(&cached));
        Ok(Some(cached))
    }
}

/// Returns the same problem for a malformed, a mistyped and an unknown key. Refusing the first two
/// without a look-up reveals no secret: the checksum is public.
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
