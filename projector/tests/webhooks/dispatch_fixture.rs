//! A database with an account, master keys, and dispatchers whose clock a test moves.

use std::{io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use linkledger_core::{
    account::{AccountChangeRequest, AccountEvent},
    clock::{Clock as _, SystemClock, new_uuid},
    credits::LowBalanceAt,
    event::Event,
    id::{AccountId, EventId, WebhookId},
    shard::{Position, Shard},
    webhook::{
        MasterKeys, SecretVersion, Webhook, WebhookChangeRequest, WebhookCreated, WebhookEvent,
        WebhookUrl,
    },
};
use linkledger_event_store::{
    accounts,
    log::{self, feed::FeedPlace},
    webhooks::{
        cursors::{Cursor, ShardPlace, cursors},
        deliveries::{self, StoredDelivery},
        rows::{self, StoredWebhook},
    },
};
use linkledger_projector::webhooks::{
    LookUp, Surroundings,
    config::{LogDatabase, WebhooksConfig},
    start_webhooks_in, system_look_up,
};
use linkledger_service::{
    internal_listener::AdminAllowedHosts, lifecycle::Tasks, webhook_config::WebhookConfig,
};
use linkledger_testing::{
    FixedClock, TestDatabase, account, append_events, append_links, events::granted, eventually,
};
use reqwest::Url;
use sqlx::PgPool;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

/// Master keys of the tests, the newest first.
const KEYS: &str = "second:YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI=\n\
                    first:YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n";

/// Database, account and master keys of a test.
pub(crate) struct DispatchFixture {
    pub(crate) database: TestDatabase,
    pub(crate) account_id: AccountId,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) keys: MasterKeys,
    keys_file: NamedTempFile,
    pub(crate) allow_nets: Vec<String>,
    pub(crate) look_up: LookUp,
    pub(crate) attempt_time_max: Duration,
    pub(crate) proxy_url: Option<Url>,
}

/// A dispatcher in the process of the test.
pub(crate) struct RunningDispatcher {
    tasks: Tasks,
    shutdown: CancellationToken,
}

impl DispatchFixture {
    pub(crate) async fn new() -> Self {
        Self::on(TestDatabase::create().await).await
    }

    pub(crate) async fn on(database: TestDatabase) -> Self {
        let account_id = account(database.pool(), 1_000_000).await;
        let mut keys_file = NamedTempFile::new().unwrap();
        keys_file.write_all(KEYS.as_bytes()).unwrap();
        Self {
            database,
            account_id,
            clock: Arc::default(),
            keys: MasterKeys::parse(KEYS).unwrap(),
            keys_file,
            allow_nets: vec!["127.0.0.0/8".to_owned()],
            look_up: system_look_up(),
            attempt_time_max: Duration::from_secs(20),
            proxy_url: None,
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        self.database.pool()
    }

    pub(crate) fn keys_file(&self) -> PathBuf {
        self.keys_file.path().to_owned()
    }

    pub(crate) fn config(&self) -> WebhooksConfig {
        let nets = self.allow_nets.iter().map(|net| net.parse().unwrap());
        WebhooksConfig {
            database: LogDatabase {
                database_url: self.database.url().to_owned().into(),
                log_database_url: None,
            },
            allow_unsafe_postgres: true,
            webhooks: WebhookConfig {
                keys_file: Some(self.keys_file()),
                allow_nets: nets.collect(),
            },
            webhooks_database_pool_size: 4,
            webhook_proxy_url: self.proxy_url.clone(),
            admin_allowed_hosts: AdminAllowedHosts::default(),
        }
    }

    /// Starts a dispatcher.
    pub(crate) async fn dispatcher(&self) -> RunningDispatcher {
        let shutdown = CancellationToken::new();
        let mut tasks = Tasks::new(shutdown.clone());
        let surroundings = Surroundings {
            clock: Arc::<FixedClock>::clone(&self.clock),
            look_up: Arc::clone(&self.look_up),
            attempt_time_max: self.attempt_time_max,
        };
        let started = start_webhooks_in(self.config(), surroundings, &mut tasks).await;
        assert!(started.unwrap().is_ready());
        RunningDispatcher { tasks, shutdown }
    }

    /// Creates a webhook of the account that wants all types, from the first event on.
    pub(crate) async fn webhook(&self, url: &str) -> WebhookId {
        self.webhook_with(url, |_| {}).await
    }

    /// Creates a webhook as `change` says.
    pub(crate) async fn webhook_with(
        &self,
        url: &str,
        change: impl FnOnce(&mut WebhookCreated),
    ) -> WebhookId {
        let mut created = self.created(url);
        change(&mut created);
        let webhook_id = created.webhook_id;
        let event = Event::Webhook(WebhookEvent::Created(created));
        append_events(self.pool(), self.account_id, &[event]).await;
        webhook_id
    }

    /// Creates a webhook of another account that wants all types, from the first event on.
    pub(crate) async fn webhook_of(&self, account_id: AccountId, url: &str) -> WebhookId {
        let created = WebhookCreated {
            account_id,
            ..self.created(url)
        };
        let webhook_id = created.webhook_id;
        let event = Event::Webhook(WebhookEvent::Created(created));
        append_events(self.pool(), account_id, &[event]).await;
        webhook_id
    }

    /// Creates a webhook of operators, from the first event on. The log has no event for it.
    pub(crate) async fn webhook_of_operators(&self, url: &str) -> WebhookId {
        let created = WebhookCreated {
            all_accounts: true,
            ..self.created(url)
        };
        let webhook = Webhook::new(&created, SystemClock.now());
        let places = Shard::all().map(|shard| ShardPlace {
            shard,
            place: FeedPlace::BEGINNING,
        });
        let mut session = self.pool().acquire().await.unwrap();
        let places: Vec<ShardPlace> = places.collect();
        let inserted = rows::insert_in_tx(&mut session, &webhook, &places).await;
        inserted.unwrap();
        webhook.webhook_id
    }

    fn created(&self, url: &str) -> WebhookCreated {
        WebhookCreated {
            account_id: self.account_id,
            webhook_id: WebhookId::from_uuid(new_uuid(SystemClock.now())),
            url: WebhookUrl::stored(url),
            types: Vec::new(),
            description: None,
            in_order: false,
            all_accounts: false,
            secret: SecretVersion {
                master_key_id: "first".to_owned(),
                generation: 1,
            },
        }
    }

    /// Changes a webhook like its owner.
    pub(crate) async fn change(&self, webhook_id: WebhookId, wanted: WebhookChangeRequest) {
        let webhook = self.stored(webhook_id).await.webhook;
        let changed = webhook.decide_change(&wanted).expect("a change");
        let event = Event::Webhook(WebhookEvent::Changed(changed));
        append_events(self.pool(), self.account_id, &[event]).await;
    }

    pub(crate) async fn set_enabled(&self, webhook_id: WebhookId, enabled: bool) {
        let wanted = WebhookChangeRequest {
            enabled: Some(enabled),
            ..WebhookChangeRequest::default()
        };
        self.change(webhook_id, wanted).await;
    }

    /// Gives thresholds to the account.
    pub(crate) async fn set_thresholds(&self, thresholds: &[i64]) {
        let account = accounts::get(self.pool(), self.account_id).await.unwrap();
        let wanted = AccountChangeRequest {
            low_balance_at: Some(LowBalanceAt::of(thresholds.to_vec()).unwrap()),
            ..AccountChangeRequest::default()
        };
        let changed = account.unwrap().account.decide_change(&wanted);
        let event = Event::Account(AccountEvent::Changed(changed.expect("a change")));
        append_events(self.pool(), self.account_id, &[event]).await;
    }

    /// Grants credits this number of times, and returns the events.
    pub(crate) async fn grants(&self, count: usize) -> Vec<EventId> {
        self.grants_of(self.account_id, count).await
    }

    pub(crate) async fn grants_of(&self, account_id: AccountId, count: usize) -> Vec<EventId> {
        let grants = vec![granted(account_id, 1, 1_000_000); count];
        let positions = append_events(self.pool(), account_id, &grants).await;
        self.event_ids(account_id, &positions).await
    }

    /// Creates links, and returns the events of the creations.
    pub(crate) async fn links(&self, slugs: &[&str]) -> Vec<EventId> {
        let links: Vec<(&str, &str)> = slugs
            .iter()
            .map(|slug| (*slug, "https://example.com/"))
            .collect();
        append_links(self.pool(), self.account_id, &links).await;
        let ids = self.events_of_type("LinkCreated").await;
        ids[ids.len() - slugs.len()..].to_vec()
    }

    pub(crate) async fn events_of_type(&self, event_type: &str) -> Vec<EventId> {
        let ids: Vec<uuid::Uuid> = sqlx::query_scalar(
            "SELECT event_id FROM event_store.events
             WHERE account_id = $1 AND type = $2 ORDER BY position",
        )
        .bind(self.account_id.uuid())
        .bind(event_type)
        .fetch_all(self.pool())
        .await
        .unwrap();
        ids.into_iter().map(EventId::from_uuid).collect()
    }

    /// Replaces the secret by one of the newest master key.
    pub(crate) async fn rotate(&self, webhook_id: WebhookId) {
        let webhook = self.stored(webhook_id).await.webhook;
        let rotated = webhook.decide_rotate("second", self.clock.now());
        let event = Event::Webhook(WebhookEvent::SecretRotated(rotated));
        append_events(self.pool(), self.account_id, &[event]).await;
    }

    /// Returns the position of the account's last event.
    pub(crate) async fn last_position(&self) -> Position {
        sqlx::query_scalar("SELECT max(position) FROM event_store.events WHERE account_id = $1")
            .bind(self.account_id.uuid())
            .fetch_one(self.pool())
            .await
            .unwrap()
    }

    async fn event_ids(&self, account_id: AccountId, positions: &[Position]) -> Vec<EventId> {
        let events = log::read_at(self.pool(), Shard::of(account_id), positions).await;
        events.unwrap().into_iter().map(|it| it.event_id).collect()
    }

    pub(crate) async fn stored(&self, webhook_id: WebhookId) -> StoredWebhook {
        let stored = rows::get(self.pool(), webhook_id).await.unwrap();
        stored.expect("the webhook exists")
    }

    pub(crate) async fn cursors(&self, webhook_id: WebhookId) -> Vec<Cursor> {
        cursors(self.pool(), webhook_id).await.unwrap()
    }

    pub(crate) async fn deliveries(&self, webhook_id: WebhookId) -> Vec<StoredDelivery> {
        let listed = deliveries::list(self.pool(), webhook_id, None, None, 1_000).await;
        listed.unwrap()
    }

    /// Waits until the stored webhook is as `is` says, and returns it.
    pub(crate) async fn eventually(
        &self,
        what: &str,
        webhook_id: WebhookId,
        is: impl Fn(&StoredWebhook) -> bool,
    ) -> StoredWebhook {
        eventually(what, async || {
            let stored = self.stored(webhook_id).await;
            is(&stored).then_some(stored)
        })
        .await
    }

    /// Waits until the delivery of an event is as `is` says, and returns it.
    pub(crate) async fn eventually_delivery(
        &self,
        (webhook_id, event_id): (WebhookId, EventId),
        is: impl Fn(&StoredDelivery) -> bool,
    ) -> StoredDelivery {
        eventually("the delivery has the state", async || {
            let deliveries = self.deliveries(webhook_id).await;
            let of_event = deliveries.into_iter().find(|it| it.event_id == event_id);
            of_event.filter(|delivery| is(delivery))
        })
        .await
    }

    /// Waits until the live cursor of the account is after the last event.
    pub(crate) async fn eventually_at_end(&self, webhook_id: WebhookId) {
        let shard = Shard::of(self.account_id);
        eventually("the cursor is at the end", async || {
            let last: i64 = sqlx::query_scalar(
                "SELECT max(position) FROM event_store.events WHERE shard = $1 AND account_id = $2",
            )
            .bind(shard.number())
            .bind(self.account_id.uuid())
            .fetch_one(self.pool())
            .await
            .unwrap();
            let cursors = self.cursors(webhook_id).await;
            let live = cursors.iter().find(|it| it.shard == shard && !it.is_replay);
            (live.unwrap().place.position >= last).then_some(())
        })
        .await;
    }
}

impl RunningDispatcher {
    /// Stops the dispatcher like SIGTERM.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.join().await.unwrap();
    }

    /// Ends the dispatcher at whatever it does, like `kill -9`: its lease is not released.
    pub(crate) fn kill(self) {
        drop(self.tasks);
    }
}
