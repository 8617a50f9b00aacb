//! Authenticates the caller: looks up the bearer token and caches it for some seconds
//! (`docs/api.md#api-keys`).

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
use time::OffsetDateTime;

use super::{
    bearer_token::bearer_token,
    dataloader::{BatchedRead, Dataloader},
    key_usage::KeyUsage,
};
use crate::problem::Problem;
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::Clock,
    id::{AccountId, KeyId},
};
use linkledger_event_store::api_keys::{self, KeyHash, StoredKey};
use linkledger_service::{lifecycle::Tasks, metrics::CACHE_REQUESTS_TOTAL};

/// Time for which a known key is trusted without a look-up: the maximal delay of a revocation, an earlier expiry or a
/// suspension in every process.
const KNOWN_KEY_TTL: Duration = Duration::from_secs(5);
/// Time for which an unknown key is refused without a look-up: the maximal delay for a key that was tried before it
/// was issued.
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
        Err(Problem::insufficient_scope(scope.name()))
    }

    /// Checks that the account is active.
    ///
    /// # Errors
    /// Returns `account_suspended` if an operator has suspended the account.
    pub fn require_active_account(&self) -> Result<(), Problem> {
        if self.account_is_suspended {
            return Err(Problem::account_suspended());
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
    /// The key did not exist at a recent look-up.
    Unknown,
    /// The key existed at its last look-up, which is too long ago.
    Stale,
    /// The cache has no recent entry for the key.
    Missing,
}

/// Unseen keys, any number of them, share two sessions; stale keys share two more.
impl BatchedRead for KeyHash {
    type Value = Option<StoredKey>;
    const TASK: &'static str = "key reader";
    const REQUESTS_MAX: usize = 256;
    const READERS: usize = 2;

    async fn read_each(pool: &PgPool, hashes: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        api_keys::find_each(pool, hashes).await
    }
}

/// Looks up keys and caches them for `KNOWN_KEY_TTL`.
pub struct Authenticator {
    clock: Arc<dyn Clock>,
    known: Cache<KeyHash, Arc<CachedKey>>,
    /// Separate from `known`, so that a flood of invented keys evicts no real key.
    unknown: Cache<KeyHash, Instant>,
    /// Look-ups of keys that are not in `known`: invented keys, and keys of callers that are new or were evicted.
    unseen_keys: Dataloader<KeyHash>,
    /// Look-ups of keys in `known` whose time to live has ended. Separate from `unseen_keys`, so that a flood of
    /// invented keys delays no caller that is known.
    stale_keys: Dataloader<KeyHash>,
    usage: Arc<KeyUsage>,
    hits: Counter,
    misses: Counter,
}

impl Authenticator {
    /// Returns an authenticator over the event store, with a cache of `keys_cached_max` known keys. The look-ups
    /// run in `tasks`.
    pub fn new(
        pool: PgPool,
        clock: Arc<dyn Clock>,
        keys_cached_max: u32,
        tasks: &mut Tasks,
    ) -> Self {
        let counter =
            |result| counter!(CACHE_REQUESTS_TOTAL, "cache" => "api_keys", "result" => result);
        Self {
            unseen_keys: Dataloader::start(&pool, tasks),
            stale_keys: Dataloader::start(&pool, tasks),
            usage: Arc::new(KeyUsage::new(pool)),
            clock,
            known: Cache::new(keys_cached_max as usize),
            unknown: Cache::new(KEYS_CACHED_MAX as usize),
            hits: counter("hit"),
            misses: counter("miss"),
        }
    }

    /// Spawns the task that writes the uses of keys to the database.
    pub fn record_uses(&self, tasks: &mut Tasks) {
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
    /// Returns one of the 401 problems, or `storage_unavailable`.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let key = ApiKey::parse(bearer_token(headers)?).ok_or_else(Problem::api_key_invalid)?;
        let found = self.find(&key).await?;
        let found = found.ok_or_else(Problem::api_key_invalid)?;
        let key = &found.key;
        let now = self.clock.now();
        check_times(key.is_revoked, key.revoked_at, key.expires_at, now)?;
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
        let cached = self.cached(&hash);
        let count = match cached {
            CacheEntry::Known(_) | CacheEntry::Unknown => &self.hits,
            CacheEntry::Stale | CacheEntry::Missing => &self.misses,
        };
        count.increment(1);
        match cached {
            CacheEntry::Known(key) => Ok(Some(key)),
            CacheEntry::Unknown => Ok(None),
            CacheEntry::Stale => self.look_up(hash, &self.stale_keys).await,
            CacheEntry::Missing => self.look_up(hash, &self.unseen_keys).await,
        }
    }

    async fn look_up(
        &self,
        hash: KeyHash,
        look_ups: &Dataloader<KeyHash>,
    ) -> Result<Option<Arc<CachedKey>>, Problem> {
        // Taken before the look-up, so that the age of the entry is never underestimated.
        let loaded_at = Instant::now();
        let Some(key) = look_ups.read(hash).await? else {
            // A look-up that began later may have found the key, issued in between.
            self.known
                .remove_if(&hash, |known| known.loaded_at <= loaded_at);
            self.unknown.insert(hash, loaded_at);
            return Ok(None);
        };
        let cached = Arc::new(CachedKey {
            key,
            loaded_at,
            use_is_recorded: AtomicBool::new(false),
        });
        self.known.insert(hash, Arc::clone(&cached));
        Ok(Some(cached))
    }

    fn cached(&self, hash: &KeyHash) -> CacheEntry {
        if let Some(known) = self.known.get(hash) {
            return if known.loaded_at.elapsed() < KNOWN_KEY_TTL {
                CacheEntry::Known(known)
            } else {
                CacheEntry::Stale
            };
        }
        match self.unknown.get(hash) {
            Some(at) if at.elapsed() < UNKNOWN_KEY_TTL => CacheEntry::Unknown,
            Some(_) | None => CacheEntry::Missing,
        }
    }
}

/// Checks that a key is neither revoked, by the clock of the database or of this process, nor expired. A process whose
/// clock is wrong refuses a revoked key too, as soon as it has read the key again.
pub(super) fn check_times(
    is_revoked: bool,
    revoked_at: Option<OffsetDateTime>,
    expires_at: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> Result<(), Problem> {
    if is_revoked || revoked_at.is_some_and(|at| at <= now) {
        return Err(Problem::api_key_revoked());
    }
    if expires_at.is_some_and(|at| at <= now) {
        return Err(Problem::api_key_expired());
    }
    Ok(())
}
