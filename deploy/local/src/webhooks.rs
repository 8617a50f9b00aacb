//! `linkledger webhooks`: one file for each operation, and the printed forms of a webhook and of a delivery.

mod change;
mod create;
mod delete;
mod deliveries;
mod delivery;
mod get;
mod list;
mod replay;
mod retry;
mod rotate_secret;
mod send_test;
mod webhook;

use clap::{Args, Subcommand};

use crate::{client::connection::ApiOptions, exit_code::EXIT_CODES};

/// Options of `linkledger webhooks`.
#[derive(Debug, Args)]
pub(crate) struct WebhooksOptions {
    #[command(flatten)]
    pub(crate) api: ApiOptions,
    #[command(subcommand)]
    command: WebhooksCommand,
}

#[derive(Debug, Subcommand)]
enum WebhooksCommand {
    /// Create a webhook, and print the secret of its signatures, which is shown only here.
    #[command(after_help = EXIT_CODES)]
    Create(create::CreateWebhookOptions),
    /// List the webhooks of the account.
    #[command(after_help = EXIT_CODES)]
    List,
    /// Show a webhook with the health of its receiver.
    #[command(after_help = EXIT_CODES)]
    Get(get::GetWebhookOptions),
    /// Change a webhook, disable or enable it; an enabled webhook continues where it stopped.
    #[command(after_help = EXIT_CODES)]
    Change(change::ChangeWebhookOptions),
    /// Delete a webhook and its deliveries for ever.
    #[command(after_help = EXIT_CODES)]
    Delete(delete::DeleteWebhookOptions),
    /// Replace the secret; for some hours messages are signed with both.
    #[command(after_help = EXIT_CODES)]
    RotateSecret(rotate_secret::RotateSecretOptions),
    /// Send a test message, and show the answer of the receiver.
    #[command(after_help = EXIT_CODES)]
    Test(send_test::TestWebhookOptions),
    /// Send earlier events once more, beside the new ones.
    #[command(after_help = EXIT_CODES)]
    Replay(replay::ReplayOptions),
    /// List messages that were refused, are retried or were delivered, newest first; or show one with its answer.
    #[command(after_help = EXIT_CODES)]
    Deliveries(deliveries::DeliveriesOptions),
    /// Retry a delivery at once.
    #[command(after_help = EXIT_CODES)]
    Retry(retry::RetryDeliveryOptions),
}

/// Runs one of the commands on webhooks.
pub(crate) async fn run(webhooks: WebhooksOptions) -> anyhow::Result<()> {
    let client = webhooks.api.client()?;
    let is_json = webhooks.api.json;
    match webhooks.command {
        WebhooksCommand::Create(create) => create::run(&client, &create, is_json).await,
        WebhooksCommand::List => list::run(&client, is_json).await,
        WebhooksCommand::Get(get) => get::run(&client, &get, is_json).await,
        WebhooksCommand::Change(change) => change::run(&client, &change, is_json).await,
        WebhooksCommand::Delete(delete) => delete::run(&client, &delete).await,
        WebhooksCommand::RotateSecret(rotate) => {
            rotate_secret::run(&client, &rotate, is_json).await
        }
        WebhooksCommand::Test(test) => send_test::run(&client, &test, is_json).await,
        WebhooksCommand::Replay(replay) => replay::run(&client, &replay, is_json).await,
        WebhooksCommand::Deliveries(deliveries) => {
            deliveries::run(&client, &deliveries, is_json).await
        }
        WebhooksCommand::Retry(retry) => retry::run(&client, &retry, is_json).await,
    }
}
