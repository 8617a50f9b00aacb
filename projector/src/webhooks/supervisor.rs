//! Runs one task for each enabled webhook while this process has the lease.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use linkledger_core::id::WebhookId;
use linkledger_event_store::{
    time_limit::{ANSWER_TIME_MAX, within},
    webhooks::{
        deliveries::webhooks_with_due,
        rows::{self, EnabledWebhook},
    },
};
use linkledger_service::metrics::{WEBHOOKS_BLOCKED, WEBHOOKS_ENABLED, WEBHOOKS_ILL};
use metrics::gauge;
use time::OffsetDateTime;
use tokio::{
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Dispatch,
    endpoint::{Endpoint, Signals},
};

/// Interval of reading the list of webhooks, and the deliveries that are due.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time for the messages in flight to finish at a stop; below the time that `Tasks` allows.
const STOP_TIME_MAX: Duration = Duration::from_secs(16);
/// Time without the lease after which the tasks end: until then they keep what they have sent and not stored.
const LEASE_LOSS_TIME_MAX: Duration = Duration::from_secs(16);
/// Step back of the clock after which plans are made anew.
const CLOCK_STEP: Duration = Duration::from_mins(1);

/// Tasks of the webhooks.
pub(super) struct Supervisor {
    dispatch: Arc<Dispatch>,
    tasks: JoinSet<EnabledWebhook>,
    /// The webhooks whose tasks run, also those that are told to stop, with the signals of their tasks.
    running: HashMap<WebhookId, (EnabledWebhook, Signals)>,
    is_reachable: bool,
    refreshed_at: OffsetDateTime,
}

impl Supervisor {
    pub(super) fn new(dispatch: Arc<Dispatch>) -> Self {
        Self {
            refreshed_at: dispatch.clock.now(),
            dispatch,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            is_reachable: true,
        }
    }

    /// Runs until the shutdown; then waits for the messages in flight, and cancels `ended`, which ends the lease.
    ///
    /// # Errors
    /// Returns an error if the task of a webhook panics: the process must not go on without it.
    pub(super) async fn run(
        mut self,
        shutdown: CancellationToken,
        ended: CancellationToken,
    ) -> anyhow::Result<()> {
        // Also after an error or a panic.
        let _ended = ended.drop_guard();
        let mut lease = self.dispatch.lease.clone();
        let mut is_due = interval(REFRESH_INTERVAL);
        is_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next() => self.forget(ended)?,
                _ = is_due.tick() => self.refresh().await?,
                () = lease.changed() => {
                    // A process that becomes active begins at once, and one whose lease another one has stops at once.
                    if lease.is_valid() == self.running.is_empty() {
                        self.refresh().await?;
                    }
                }
            }
        }
        self.stop_all().await
    }

    /// Starts the tasks of new webhooks, ends those of others, and wakes those with a delivery that is due. Ends all
    /// once the lease is lost; while it only could not be renewed, they send nothing.
    async fn refresh(&mut self) -> anyhow::Result<()> {
        if !self.dispatch.lease.is_valid() {
            if self.dispatch.lease.is_lost_for(LEASE_LOSS_TIME_MAX) {
                self.stop_all().await?;
            }
            self.report();
            return Ok(());
        }
        let refreshed = self.try_refresh().await;
        // An outage is logged at its beginning only.
        if let Err(error) = &refreshed
            && self.is_reachable
        {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "cannot read the list of webhooks; retrying");
        }
        self.is_reachable = refreshed.is_ok();
        self.report();
        Ok(())
    }

    async fn try_refresh(&mut self) -> sqlx::Result<()> {
        let pool = &self.dispatch.pool;
        let enabled = within(ANSWER_TIME_MAX, rows::enabled(pool)).await?;
        let now = self.dispatch.clock.now();
        let due = within(ANSWER_TIME_MAX, webhooks_with_due(pool, now)).await?;
        self.stop_changed(&enabled, now);
        // The lease may have ended meanwhile.
        if self.dispatch.lease.is_valid() {
            self.start_new(enabled);
        }
        for (_, signals) in due.iter().filter_map(|it| self.running.get(it)) {
            signals.wake.notify_one();
        }
        Ok(())
    }

    /// Ends the tasks of webhooks that are not enabled any more, and of those that have changed: another address must
    /// not wait for the messages of a page. After a step back of the clock, all tasks begin anew.
    fn stop_changed(&mut self, enabled: &[EnabledWebhook], now: OffsetDateTime) {
        let is_stepped_back = now + CLOCK_STEP < self.refreshed_at;
        self.refreshed_at = now;
        let enabled: HashMap<WebhookId, &EnabledWebhook> =
            enabled.iter().map(|it| (it.webhook_id, it)).collect();
        for (webhook_id, (webhook, signals)) in &self.running {
            if is_stepped_back || enabled.get(webhook_id) != Some(&webhook) {
                signals.stop.cancel();
            }
        }
    }

    fn start_new(&mut self, enabled: Vec<EnabledWebhook>) {
        for webhook in enabled {
            if self.running.contains_key(&webhook.webhook_id) {
                continue;
            }
            let signals = Signals::default();
            self.running
                .insert(webhook.webhook_id, (webhook, signals.clone()));
            let endpoint = Endpoint::new(Arc::clone(&self.dispatch), webhook, signals);
            self.tasks.spawn(endpoint.run());
        }
    }

    /// Takes the end of a task. A webhook that is enabled still, or again, gets a new one.
    fn forget(&mut self, ended: Result<EnabledWebhook, JoinError>) -> anyhow::Result<()> {
        match ended {
            Ok(webhook) => {
                self.running.remove(&webhook.webhook_id);
                Ok(())
            }
            Err(error) if error.is_cancelled() => Ok(()),
            Err(error) => Err(error).context("the task of a webhook panicked"),
        }
    }

    /// Ends all tasks: they send nothing more, and store how far they are.
    async fn stop_all(&mut self) -> anyhow::Result<()> {
        for (_, signals) in self.running.values() {
            signals.stop.cancel();
        }
        let finishing = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    return Err(error).context("the task of a webhook panicked");
                }
            }
            Ok(())
        };
        let finished = timeout(STOP_TIME_MAX, finishing).await;
        // Messages in flight are sent again by the next dispatcher.
        self.tasks.shutdown().await;
        self.running.clear();
        finished.unwrap_or(Ok(()))
    }

    fn report(&self) {
        let count = |is: fn(&Signals) -> bool| {
            let running = self.running.values();
            running.filter(|(_, signals)| is(signals)).count()
        };
        set_gauge(WEBHOOKS_ENABLED, self.running.len());
        set_gauge(WEBHOOKS_ILL, count(Signals::is_ill));
        set_gauge(WEBHOOKS_BLOCKED, count(Signals::is_blocked));
    }
}

fn set_gauge(name: &'static str, value: usize) {
    gauge!(name).set(u32::try_from(value).unwrap_or(u32::MAX));
}
