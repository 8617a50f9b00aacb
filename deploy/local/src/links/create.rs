//! `linkledger links create`: once under its key, however often it is sent.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::clock::{Clock as _, SystemClock, new_uuid};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::print_link;
use crate::{
    client::{Answer, Call, Client, Failure},
    output::note,
};

/// What the link leads to, and its name.
#[derive(Debug, Args)]
pub(crate) struct CreateLink {
    /// Where the link leads: an http or https address.
    destination_url: String,
    /// Last part of the short address. Default: 8 characters drawn by the service.
    #[arg(long)]
    slug: Option<String>,
    /// Repeat an earlier create under its key: there is one link and one charge, however often.
    /// Default: a fresh one.
    #[arg(long, value_name = "UUID")]
    idempotency_key: Option<Uuid>,
}

pub(super) async fn run(client: &Client, create: &CreateLink, is_json: bool) -> anyhow::Result<()> {
    let key = create
        .idempotency_key
        .unwrap_or_else(|| new_uuid(SystemClock.now()));
    let call = Call::create_link(key, &create.destination_url, create.slug.as_deref());
    let answer = send(client, &call).await?.map_err(|failure| {
        failure.advise(&format!(
            "The link may have been created or not. Repeat the command with --idempotency-key \
             {key}: there will be one link and one charge."
        ))
    })?;
    if answer.header("idempotent-replayed").is_some() {
        note("This link was created before under the same key; nothing was charged this time.");
    }
    print_link(client, &call, &answer, is_json)
        .with_context(|| format!("the link is created, under the key {key}"))?;
    client.settle(&answer).await;
    Ok(())
}

/// Ctrl-C ends the wait, and not the process: the key must still be told. So it is listened for
/// before anything is sent.
async fn send(client: &Client, call: &Call) -> anyhow::Result<Result<Answer, Failure>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("can't listen for Ctrl-C")?;
    Ok(tokio::select! {
        outcome = client.send(call) => outcome,
        _ = interrupt.recv() => Err(client.no_answer(call, "interrupted")),
    })
}
