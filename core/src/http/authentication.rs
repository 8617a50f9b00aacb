//! Who calls: the bearer token, looked up and cached for a moment (contract §8).

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
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

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
    single_flight::{Flights, Turn},
};

/// How long a key is trusted without a look-up, in seconds: the bound on the delay of a
/// revocation, an earlier expiry or a suspension, in every process.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// How long a key is refused without a look-up, in seconds: so long a key may be refused that was
/// tried before it was issued.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Most keys that are remembered of each kind.
const REMEMBERED_MAX: usize = 10_000;
/// Strangers that are looked up at once; each takes a session, and the services have more.
const STRANGERS_RUNNING_MAX: usize = 2;
/// Strangers that wait for that; the next one is answered `overloaded`.
const STRANGERS_WAITING_MAX: usize = 256;
/// Longest such wait, in seconds.
const STRANGER_WAIT_MAX: Duration = Duration::from_secs(1);

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
    /// Whether it was noted that the key is used; once for each look-up, not for each request.
    is_noted: AtomicBool,
}

/// What the process remembers of a key.
enum Memory {
    /// There is such a key.
    Known(Arc<CachedKey>),
    /// There was such a key.
    Stale,
    /// There was no such key just now.
    Unknown,
    /// Nothing: a stranger.
    Nothing,
}

/// Looks keys up and remembers them for `KNOWN_FOR`.
pub struct Authenticator {
    pool: PgPool,
    clock: Arc<dyn Clock>,
    known: Cache<[u8; 32], Arc<CachedKey>>,
    /// Apart from `known`: a flood of made-up keys drives no real one out.
    unknown: Cache<[u8; 32], Instant>,
    strangers: Strangers,
    /// One look-up of a key at a time, by its hash.
    look_ups: Flights<[u8; 32], Result<(), Problem>>,
    usage: Arc<KeyUsage>,
    hits: Counter,
    misses: Counter,
}

impl Authenticator {
    /// An authenticator over the event store.
    pub fn new(pool: PgPool, clock: Arc<dyn Clock>) -> Self {
        let counter =
            |result| counter!(CACHE_REQUESTS_TOTAL, "cache" => "api_keys", "result" => result);
        Self {
            usage: Arc::new(KeyUsage::new(pool.clone())),
            pool,
            clock,
            known: Cache::new(REMEMBERED_MAX),
            unknown: Cache::new(REMEMBERED_MAX),
            strangers: Strangers::default(),
            look_ups: Flights::default(),
            hits: counter("hit"),
            misses: counter("miss"),
        }
    }

    /// When keys were used, to be written beside the requests.
    pub fn usage(&self) -> Arc<KeyUsage> {
        Arc::clone(&self.usage)
    }

    /// The caller of a request with these headers.
    ///
    /// # Errors
    /// One of the 401 problems, `overloaded` or `storage_unavailable`.
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
        if !found.is_noted.swap(true, Ordering::Relaxed) {
            self.usage.note(key.key_id, now);
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
        let memory = self.remember(&hash);
        self.count(&memory);
        match memory {
            Memory::Known(key) => return Ok(Some(key)),
            Memory::Unknown => return Ok(None),
            Memory::Stale | Memory::Nothing => {}
        }
        match self.look_ups.join(hash) {
            Turn::Go(look_up) => {
                let found = self.load(key, hash).await;
                look_up.land(found.as_ref().map(|_| ()).map_err(Clone::clone));
                found
            }
            Turn::Wait(landing) => match landing.outcome().await {
                Some(Err(problem)) => Err(problem),
                // What it found is remembered, unless that is too old by now.
                Some(Ok(())) | None => self.load(key, hash).await,
            },
        }
    }

    async fn load(&self, key: &ApiKey, hash: [u8; 32]) -> Result<Option<Arc<CachedKey>>, Problem> {
        let _turn = match self.remember(&hash) {
            Memory::Known(key) => return Ok(Some(key)),
            Memory::Unknown => return Ok(None),
            Memory::Stale => None,
            Memory::Nothing => Some(self.strangers.turn().await?),
        };
        self.look_up(key, hash).await.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "can't look up an API key");
            Problem::storage_unavailable()
        })
    }

    fn count(&self, memory: &Memory) {
        let count = match memory {
            Memory::Known(_) | Memory::Unknown => &self.hits,
            Memory::Stale | Memory::Nothing => &self.misses,
        };
        count.increment(1);
    }

    fn remember(&self, hash: &[u8; 32]) -> Memory {
        match self.known.get(hash) {
            Some(key) if key.loaded_at.elapsed() < KNOWN_FOR => return Memory::Known(key),
            Some(_) => return Memory::Stale,
            None => {}
        }
        match self.unknown.get(hash) {
            Some(at) if at.elapsed() < UNKNOWN_FOR => Memory::Unknown,
            Some(_) | None => Memory::Nothing,
        }
    }

    async fn look_up(&self, key: &ApiKey, hash: [u8; 32]) -> sqlx::Result<Option<Arc<CachedKey>>> {
        // Taken before the look-up: the answer is at least as old as that.
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
            is_noted: AtomicBool::new(false),
        });
        self.known.insert(hash, Arc::clone(&cached));
        Ok(Some(cached))
    }
}

/// Look-ups of keys that the process does not know: few at once, so that made-up keys, however
/// many, take no more than that of the database.
struct Strangers {
    waiting: Semaphore,
    running: Semaphore,
}

impl Default for Strangers {
    fn default() -> Self {
        Self {
            waiting: Semaphore::new(STRANGERS_WAITING_MAX),
            running: Semaphore::new(STRANGERS_RUNNING_MAX),
        }
    }
}

impl Strangers {
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let overloaded = || {
            let detail = "Too many unknown API keys are being looked up; try again shortly.";
            Problem::new(Code::Overloaded, detail).retry_after(1)
        };
        let _place = self.waiting.try_acquire().map_err(|_| overloaded())?;
        match timeout(STRANGER_WAIT_MAX, self.running.acquire()).await {
            Ok(turn) => Ok(turn.expect("the semaphore is never closed")),
            Err(_) => Err(overloaded()),
        }
    }
}

/// The same for a malformed, a mistyped and an unknown key. The first two are refused without a
/// look-up, which tells nothing: whoever has a key can compute its checksum.
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
