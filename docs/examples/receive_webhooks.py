"""Receives webhooks: checks each signature, and prints each message once, however often it comes.

usage: receive_webhooks.py FILE [PORT]. WEBHOOK_SECRET is the secret of the webhook (whsec_…); FILE keeps the ids of
messages, PORT is 3000 by default. Needs the package standardwebhooks.
"""

import http.server
import os
import sqlite3
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

BODY_BYTES_MAX = 256 * 1024

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
kept = sqlite3.connect(sys.argv[1])
kept.execute("CREATE TABLE IF NOT EXISTS messages (id TEXT PRIMARY KEY, received_at TEXT DEFAULT current_timestamp)")


def messages_of(body, request_id):
    """Returns the messages of a request, each with its id: a webhook that has in_order gets lists."""
    if body["type"] == "events":
        return [(item["id"], item) for item in body["data"]["items"]]
    return [(request_id, body)]


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if length > BODY_BYTES_MAX:
            return self.answer(413)
        try:
            body = webhook.verify(self.rfile.read(length), dict(self.headers))
        except (WebhookVerificationError, ValueError):
            return self.answer(401)
        # In one transaction with your own change: a crash loses neither, and a repeat does nothing.
        with kept:
            for message_id, message in messages_of(body, self.headers["webhook-id"]):
                insert = "INSERT INTO messages (id) VALUES (?) ON CONFLICT DO NOTHING"
                is_first = kept.execute(insert, (message_id,)).rowcount == 1
                if is_first:
                    print(message["type"], message_id, flush=True)
        return self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()


class Server(http.server.HTTPServer):
    # Room for all requests that come at once: one without room comes again after a second.
    request_queue_size = 64


port = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
Server(("127.0.0.1", port), Receiver).serve_forever()
