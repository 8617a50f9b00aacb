//! `linkledger events`: prints the events of the account in their order, waits for new ones, and forwards them to a
//! receiver.

mod forwarding;
mod item;

use std::time::Duration;

use clap::Args;
use linkledger_service::lifecycle::interrupted;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::{
    forwarding::{EventReceiver, ForwardingOptions},
    item::FeedEvent,
};
use crate::{
    client::{ApiCall, ApiClient, RetryPolicy, connection::ApiOptions},
    output::{note, print},
    paging::PAGE_LIMIT_MAX,
};

/// Longest wait of the service for a new event, in seconds.
const WAIT_S: u32 = 25;
/// Pause after an empty page: a service that stops ends its waits at once.
const IDLE_PAUSE: Duration = Duration::from_millis(200);

/// Options of `linkledger events`.
#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// Wait for new events until Ctrl-C.
    #[arg(long)]
    follow: bool,
    /// First event: beginning, now, or an instant such as 2026-11-20T12:00:00Z. Default: beginning.
    #[arg(long, value_name = "beginning|now|INSTANT")]
    from: Option<String>,
    /// Continue after an earlier run: the cursor that was printed at its end.
    #[arg(long, value_name = "CURSOR", conflicts_with = "from")]
    after: Option<String>,
    /// Read only events of these types, separated by commas, such as LinkCreated,LinkDeleted.
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    #[command(flatten)]
    forwarding: ForwardingOptions,
    #[command(flatten)]
    pub(crate) api: ApiOptions,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    next_cursor: String,
    has_more: bool,
}

/// Prints the events up to the end of the feed, or until Ctrl-C.
pub(crate) async fn run(events: EventsOptions) -> anyhow::Result<()> {
    let client = events.api.client_with(RetryPolicy::BULK)?;
    let receiver = events.forwarding.receiver()?;
    let mut cursor = events.after.clone();
    let printing = events.print(&client, receiver.as_ref(), &mut cursor);
    let outcome = if events.follow {
        let interrupted = interrupted()?;
        tokio::select! {
            outcome = printing => outcome,
            () = interrupted => Ok(()),
        }
    } else {
        printing.await
    };
    if let Some(cursor) = cursor {
        note(&format!("Go on from about here with --after {cursor}"));
    }
    outcome
}

impl EventsOptions {
    /// Prints the events after the cursor, each after its delivery, and moves the cursor behind each page.
    ///
    /// # Errors
    /// Returns an error if a call fails, or if a page with a further page names its own cursor, since such a feed
    /// would never end.
    async fn print(
        &self,
        client: &ApiClient,
        receiver: Option<&EventReceiver>,
        cursor: &mut Option<String>,
    ) -> anyhow::Result<()> {
        loop {
            let call = self.call(cursor.clone());
            let answer = client.send(&call).await?;
            let page: Page<'_> = client.read(&call, &answer)?;
            for item in &page.items {
                let not_the_api = |_| client.not_the_api(&call, answer.status);
                let event: FeedEvent<'_> = serde_json::from_str(item.get()).map_err(not_the_api)?;
                let line = if self.api.json {
                    item.get().to_owned()
                } else {
                    event.line().map_err(not_the_api)?
                };
                if let Some(receiver) = receiver {
                    receiver.deliver(&event).await?;
                }
                print(&format!("{line}\n"))?;
            }
            if page.has_more && cursor.as_ref() == Some(&page.next_cursor) {
                return Err(client.not_the_api(&call, answer.status).into());
            }
            *cursor = Some(page.next_cursor);
            if page.has_more {
                continue;
            }
            if !self.follow {
                return Ok(());
            }
            if page.items.is_empty() {
                tokio::time::sleep(IDLE_PAUSE).await;
            }
        }
    }

    /// Makes the call for the page after the cursor, or for the first page.
    fn call(&self, cursor: Option<String>) -> ApiCall {
        let from = self.from.clone().filter(|_| cursor.is_none());
        ApiCall::get(&["v1", "events"])
            .query("from", from)
            .query("after", cursor)
            .query("types", self.types.clone())
            .query("limit", Some(PAGE_LIMIT_MAX.to_string()))
            .query("wait", self.follow.then(|| WAIT_S.to_string()))
    }
}
