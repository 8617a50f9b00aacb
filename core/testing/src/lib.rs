//! Real servers, a clock with a fixed time, and shortcuts to a given state, for tests.

mod append_events;
mod broker;
mod database;
pub mod events;
mod later_release;
mod per_projection;
mod random;
pub mod record;
pub mod stream;
mod unreadable_event;
pub mod wire;

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

pub use linkledger_servers::free_address;
use sqlx::PgPool;
use time::{OffsetDateTime, macros::datetime};

use linkledger_core::{
    account::{Account, AccountStatus},
    api_key::{ApiKey, KeyState, Scope},
    clock::{Clock, SystemClock, new_uuid},
    commands::{
        CommandOutcome, CommitGroup, CreateResult, CreateTerms, DecisionInput, EVENTS_MAX,
        IdempotencyKey, KeyedCreate, LinkCommand, LoadedState, SlugReservation,
    },
    credits::LowBalanceAt,
    envelope::Metadata,
    id::{AccountId, EventId, KeyId, LinkId},
    json::JsonObject,
    link::{
        DestinationRules, LinkCreated, LinkDraft, Slug,
        members::{DESTINATION_URL, EXTERNAL_ID, SLUG, parse_new_link},
    },
    shard::Shard,
};
use linkledger_event_store::{
    accounts,
    api_keys::{self, KeySecret},
    append, slugs,
    transaction::{self, PoolTransaction},
};
use linkledger_http::link_request::LinkCreate;

pub use self::later_release::{LaterEvent, append_later_event};
pub use self::{
    append_events::{append_events, created_account, forget_events_after, link_after},
    broker::{TestBroker, until_known},
    database::{ReplicatedDatabase, TestDatabase, flush_statistics},
    per_projection::{in_all, in_all_but},
    random::Random,
    unreadable_event::{damage_event, hide_event, mend_log},
};

/// Longest time until a condition holds, before a test fails.
const DEADLINE: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Clock that moves only by [`FixedClock::advance`].
#[derive(Debug)]
pub struct FixedClock(Mutex<OffsetDateTime>);

impl Default for FixedClock {
    fn default() -> Self {
        Self(Mutex::new(datetime!(2026-11-20 09:51:00 UTC)))
    }
}

impl FixedClock {
    /// Moves the clock forward.
    pub fn advance(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// Moves the clock backward.
    pub fn set_back(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= time;
    }
}

impl Clock for FixedClock {
    fn now(&self) -> OffsetDateTime {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polls until `ask` returns an answer, and returns the answer.
///
/// # Panics
/// Panics with `what`, the name of the condition, if there is no answer within `DEADLINE`.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl FnMut() -> F) -> T {
    eventually_within(DEADLINE, what, ask).await
}

/// Polls like [`eventually`], with another deadline.
///
/// # Panics
/// Panics with `what` if there is no answer before the deadline.
pub async fn eventually_within<T, F: Future<Output = Option<T>>>(
    deadline: Duration,
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let polling = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    // The deadline also ends a poll that waits for ever.
    let polled = tokio::time::timeout(deadline, polling).await;
    polled.unwrap_or_else(|_| panic!("not within {deadline:?}: {what}"))
}

/// Returns the number of sessions of the pool's database that wait for a lock.
///
/// # Panics
/// Panics if the database fails.
pub async fn sessions_waiting_for_lock(pool: &PgPool) -> i64 {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting = sqlx::query_scalar(waiting).fetch_one(pool).await;
    waiting.expect("the sessions can be read")
}

/// Creates an account with a balance. The log has no event for either, so the first position is that of the first
/// appended event; `log verify` reports the account.
pub async fn account(pool: &PgPool, balance: i64) -> AccountId {
    create_account(pool, new_account_id(), balance).await
}

/// Creates an account of a given shard with a balance, like [`account`].
pub async fn account_of(pool: &PgPool, shard: Shard, balance: i64) -> AccountId {
    let mut ids = std::iter::repeat_with(new_account_id);
    let account_id = ids.find(|id| Shard::of(*id) == shard);
    create_account(pool, account_id.expect("new ids never end"), balance).await
}

/// Returns the id of a new account.
pub fn new_account_id() -> AccountId {
    AccountId::from_uuid(new_uuid(SystemClock.now()))
}

/// Creates the row of an account with this id and name, without credits, and without an event.
pub async fn account_row(pool: &PgPool, account_id: AccountId, name: &str) {
    let account = Account {
        account_id,
        name: name.to_owned(),
        external_id: None,
        low_balance_at: LowBalanceAt::NONE,
        status: AccountStatus::Active,
        created_at: SystemClock.now(),
    };
    let mut session = pool.acquire().await.expect("the database answers");
    accounts::create_in_tx(&mut session, &account, None)
        .await
        .expect("an account is created");
}

async fn create_account(pool: &PgPool, account_id: AccountId, balance: i64) -> AccountId {
    account_row(pool, account_id, "test").await;
    sqlx::query("UPDATE event_store.accounts SET balance = $2 WHERE account_id = $1")
        .bind(account_id.uuid())
        .bind(balance)
        .execute(pool)
        .await
        .expect("the balance is set");
    account_id
}

/// Creates an API key of the account. The log has no event for the key.
pub async fn api_key(pool: &PgPool, account_id: AccountId, scopes: &[Scope]) -> ApiKey {
    let secret = ApiKey::generate();
    let key = KeyState {
        account_id,
        key_id: KeyId::from_uuid(new_uuid(SystemClock.now())),
        name: "test".to_owned(),
        scopes: Scope::names(scopes),
        created_at: SystemClock.now(),
        expires_at: None,
        revoked_at: None,
    };
    key_row(pool, &key, &secret).await;
    secret
}

/// Creates the row of an API key, without an event.
pub async fn key_row(pool: &PgPool, key: &KeyState, secret: &ApiKey) {
    let mut session = pool.acquire().await.expect("the database answers");
    api_keys::insert_in_tx(&mut session, key, &KeySecret::of(secret))
        .await
        .expect("a key is issued");
    record::secret(record::Secret::ApiKey, secret.reveal());
}

/// Revokes an API key after a time, by the database's clock, and returns the time of the revocation. The log has no
/// event for it.
pub async fn revoke_key(pool: &PgPool, key_id: KeyId, after: Duration) -> OffsetDateTime {
    let mut session = pool.acquire().await.expect("the database answers");
    let key = api_keys::get_in_tx(&mut session, key_id).await;
    let key = key.expect("the key is read").expect("the key exists");
    let now = transaction::database_now(&mut session).await;
    let revoked_at = now.expect("the clock is read") + after;
    let revoked = KeyState {
        revoked_at: Some(revoked_at),
        ..key
    };
    api_keys::update_in_tx(&mut session, &revoked)
        .await
        .expect("the key is written");
    revoked_at
}

/// Appends a link with all details for each slug and destination to the event store, one charge each.
pub async fn append_links(
    pool: &PgPool,
    account_id: AccountId,
    links: &[(&str, &str)],
) -> Vec<CreateResult> {
    let drafts = links
        .iter()
        .map(|(slug, destination)| link_draft(slug, destination));
    append_drafts(pool, account_id, drafts.collect()).await
}

/// Appends links with chosen slugs to the event store, one charge each.
///
/// # Panics
/// Panics if a draft has no slug.
pub async fn append_drafts(
    pool: &PgPool,
    account_id: AccountId,
    drafts: Vec<LinkDraft>,
) -> Vec<CreateResult> {
    let mut tx = PoolTransaction::begin(pool)
        .await
        .expect("a transaction begins");
    let credits = accounts::lock_in_tx(&mut tx, &[account_id])
        .await
        .expect("the account is locked");
    let ids: Vec<DecisionInput> = drafts.iter().map(|_| decision_ids()).collect();
    let reservations: Vec<SlugReservation> = drafts
        .iter()
        .zip(&ids)
        .map(|(draft, ids)| SlugReservation {
            slug: draft.slug.clone().expect("a chosen slug"),
            shard: Shard::of(account_id),
            link_id: ids.link_id,
        })
        .collect();
    let free = slugs::reserve_in_tx(&mut tx, &reservations)
        .await
        .expect("slugs are reserved");
    let creates = drafts.into_iter().map(|draft| create(account_id, draft));
    let terms = CreateTerms {
        link_price: 1,
        short_base_url: "http://127.0.0.1:8081".to_owned(),
    };
    let state = LoadedState {
        credits,
        reserved_slugs: free,
        ..LoadedState::default()
    };
    let mut group = CommitGroup::new(&terms, 1, state);
    let outcomes = creates
        .zip(&ids)
        .filter_map(|(create, ids)| group.decide(&create, std::slice::from_ref(ids)));
    let mut outcomes: Vec<CommandOutcome> = outcomes.collect();
    let decided = group.finish();
    let events: Vec<_> = decided.events.iter().collect();
    let appended = append::append_in_tx(&mut tx, &events, &decided.credits).await;
    tx.commit().await.expect("the links are committed");
    CommandOutcome::set_positions(&mut outcomes, &appended.expect("events are appended"));
    let links = outcomes.into_iter().map(|outcome| {
        let CommandOutcome::Create(Ok(link)) = outcome else {
            panic!("{outcome:?}");
        };
        Arc::unwrap_or_clone(link.settled)
    });
    let links: Vec<CreateResult> = links.collect();
    assert_eq!(links.len(), ids.len(), "each slug is reserved");
    links
}

/// Returns a draft with all optional members, parsed from the example of the OpenAPI document.
///
/// # Panics
/// Panics if the slug or the destination is invalid.
pub fn link_draft(slug: &str, destination: &str) -> LinkDraft {
    let mut body = LinkCreate::example();
    body[SLUG] = slug.into();
    body[DESTINATION_URL] = destination.into();
    // An external id belongs to one link of an account.
    body[EXTERNAL_ID] = format!("offers/{slug}").into();
    let object = JsonObject::parse(body.to_string().as_bytes()).expect("a JSON object");
    parse_new_link(&object, &DestinationRules::default()).expect("a valid link")
}

/// Returns the creation of a link with all optional members.
///
/// # Panics
/// Panics if the slug or the destination is invalid.
pub fn link_created(
    link_id: LinkId,
    account_id: AccountId,
    slug: &str,
    destination: &str,
) -> LinkCreated {
    let draft = link_draft(slug, destination);
    let slug = Slug::parse(slug).expect("a valid slug");
    let short_url = format!("https://sho.rt/{slug}");
    LinkCreated::new(link_id, account_id, &slug, short_url, draft)
}

fn create(account_id: AccountId, draft: LinkDraft) -> LinkCommand {
    LinkCommand::Create(KeyedCreate {
        account_id,
        key_id: KeyId::from_uuid(new_uuid(SystemClock.now())),
        key: IdempotencyKey(new_uuid(SystemClock.now())),
        fingerprint: [0; 32],
        body: Ok(draft),
        metadata: Metadata::default(),
    })
}

fn decision_ids() -> DecisionInput {
    let now = SystemClock.now();
    DecisionInput {
        now,
        link_id: LinkId::from_uuid(new_uuid(now)),
        event_ids: [(); EVENTS_MAX].map(|()| EventId::from_uuid(new_uuid(now))),
        generated_slug: Slug::generate(),
    }
}

/// Runs `work` in the background of the test.
#[expect(clippy::disallowed_methods, reason = "a test awaits what it starts")]
pub fn in_background<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}
