//! `linkledger links create`: creates one link under one idempotency key.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    link::members::{DESTINATION_URL, SLUG},
};
use serde_json::{Map, Value};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::{details::DetailOptions, print_link};
use crate::{
    client::{ApiCall, ApiClient, ApiResponse, CallFailure},
    output::note,
};

/// Options of `linkledger links create`.
#[derive(Debug, Args)]
pub(crate) struct CreateLinkOptions {
    /// Destination of the link: an http or https address.
    destination_url: String,
    /// Last part of the short address. Default: 8 random characters, chosen by the service.
    #[arg(long)]
    slug: Option<String>,
    #[command(flatten)]
    details: DetailOptions,
    /// Idempotency key. Repeating a create with the same key gives one link and one charge.
    /// Default: a new key.
    #[arg(long, value_name = "UUID", value_parser = idempotency_key)]
    idempotency_key: Option<Uuid>,
}

/// Parses an idempotency key on the command line.
fn idempotency_key(text: &str) -> Result<Uuid, String> {
    text.parse()
        .map_err(|_| "not a UUID such as 01997f2c-5d1e-7c3a-9b1f-0123456789ab".to_owned())
}

pub(super) async fn run(
    client: &ApiClient,
    create: &CreateLinkOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let key = create
        .idempotency_key
        .unwrap_or_else(|| new_uuid(SystemClock.now()));
    let mut body = Map::new();
    let destination_url = create.destination_url.as_str().into();
    body.insert(DESTINATION_URL.to_owned(), destination_url);
    if let Some(slug) = &create.slug {
        body.insert(SLUG.to_owned(), slug.as_str().into());
    }
    create.details.add_to(&mut body);
    let call = ApiCall::create_link(key, Value::Object(body));
    let answer = send(client, &call).await?.map_err(|failure| {
        // A key that the user gave may have created the link in an earlier run.
        if !failure.is_unknown_outcome() && create.idempotency_key.is_none() {
            return failure;
        }
        failure.advise(&format!(
            "The link may exist or not. Repeat the command with --idempotency-key {key}: the \
             service then makes one link and one charge."
        ))
    })?;
    if answer.header("idempotent-replayed").is_some() {
        note(
            "This link was created before under the same idempotency key; nothing was charged \
             this time.",
        );
    }
    print_link(client, &call, &answer, is_json)
        .with_context(|| format!("the link is created, under the idempotency key {key}"))?;
    client.settle(answer.token()).await;
    Ok(())
}

/// Sends the create. Ctrl-C ends the wait but not the process, so that the idempotency key can still
/// be printed. The process therefore listens for Ctrl-C before the request is sent.
async fn send(
    client: &ApiClient,
    call: &ApiCall,
) -> anyhow::Result<Result<ApiResponse, CallFailure>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("can't listen for Ctrl-C")?;
    Ok(tokio::select! {
        outcome = client.send(call) => outcome,
        _ = interrupt.recv() => Err(client.no_answer(call, "interrupted", true)),
    })
}
