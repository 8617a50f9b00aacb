//! Webhooks of the stack: a receiver on this machine gets signed messages, once the client has created the webhook.

use linkledger_core::webhook::WebhookSecret;
use linkledger_testing::record;
use serde_json::{Value, json};

use crate::{
    process::{Stack, data_folder, run, text},
    scripted_server::{Reply, Request, ScriptedServer},
};

fn accepted() -> Reply {
    Reply::Answer {
        status: 204,
        headers: "",
        body: String::new(),
    }
}

/// Returns the message of a request whose signature is that of the secret.
fn verified(request: &Request, secret: &WebhookSecret) -> Value {
    let header = |name| request.header(name).unwrap();
    let timestamp = header("webhook-timestamp").parse().unwrap();
    let signature = secret.signature(header("webhook-id"), timestamp, request.body());
    assert_eq!(header("webhook-signature"), signature);
    request.json()
}

#[tokio::test]
async fn receiver_on_this_machine_gets_signed_messages() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let receiver = ScriptedServer::start(vec![accepted(), accepted()]);
    let created = run(
        folder.path(),
        &["webhooks", "create", &receiver.url, "--json"],
    );
    assert_eq!(created.status.code(), Some(0), "{created:?}");
    let webhook: Value = serde_json::from_str(text(&created.stdout)).unwrap();
    let shown = webhook["secret"].as_str().unwrap();
    record::secret(record::Secret::WebhookSecret, shown);
    let secret = WebhookSecret::parse(shown).unwrap();

    let id = webhook["id"].as_str().unwrap();
    let tested = run(folder.path(), &["webhooks", "test", id]);
    assert_eq!(tested.status.code(), Some(0), "{tested:?}");
    let message = verified(&receiver.request(), &secret);
    assert_eq!(message["type"], "webhook.test");

    let body = json!({ "destination_url": "https://example.com/", "slug": "spring-hook" });
    let link = stack
        .http()
        .create("00000000-0000-4000-8000-000000000001", &body)
        .await;
    assert_eq!(link.status, 201, "{link:?}");
    let message = verified(&receiver.request(), &secret);
    assert_eq!(message["type"], "link.created");
    assert_eq!(message["data"]["link_id"], link.json()["id"]);
    assert_eq!(message["data"]["charge"]["amount"], 1);
    assert_eq!(stack.interrupt(), Some(0));
}
