//! `linkledger links create`: creates one link under one idempotency key.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::link::members::{DESTINATION_URL, SLUG};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{details::DetailOptions, print_link};
use crate::{
    client::{
        ApiCall, ApiClient,
        keyed::{CallKey, parse_idempotency_key},
    },
    output::note,
};

/// Outcome of a create without an answer, and the effect of its repetition.
const UNKNOWN: (&str, &str) = ("The link may exist or not", "makes one link and one charge");

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
    #[arg(long, value_name = "UUID", value_parser = parse_idempotency_key)]
    idempotency_key: Option<Uuid>,
}

pub(super) async fn run(
    client: &ApiClient,
    create: &CreateLinkOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let key = CallKey::given_or_new(create.idempotency_key);
    let mut body = Map::new();
    let destination_url = create.destination_url.as_str().into();
    body.insert(DESTINATION_URL.to_owned(), destination_url);
    if let Some(slug) = &create.slug {
        body.insert(SLUG.to_owned(), slug.as_str().into());
    }
    create.details.add_to(&mut body);
    let call = ApiCall::create_link(key.value, Value::Object(body));
    let answer = client.send_keyed(&call, key, UNKNOWN).await?;
    if answer.header("idempotent-replayed").is_some() {
        note(
            "This link was created before under the same idempotency key; nothing was charged \
             this time.",
        );
    }
    print_link(client, &call, &answer, is_json).with_context(|| {
        let key = key.value;
        format!("the link is created, under the idempotency key {key}")
    })?;
    client.settle(answer.token()).await;
    Ok(())
}
