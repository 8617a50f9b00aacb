"""Clients that follow the events of accounts: readers of the feed, and receivers of webhooks."""

import base64
import hashlib
import hmac
import http.server
import json
import random
import subprocess
import threading
import time
import uuid
from urllib.parse import urlencode

from .client import CREATED, Client

# Longest wait of a read of the feed.
WAITS_S = (0, 0, 2, 10)
LIMITS = (5, 50, 100)
HEADS = "SELECT json_build_object('shard', shard, 'head', head) FROM event_store.log_shards"
# Answers of a receiver, with their weights: 400 refuses the messages of one request, the other failures make the receiver
# ill. Without an answer the dispatcher gives up after 20 s.
ACCEPTED, REFUSED, FAILED, BUSY, HANGS = (200, 204), 400, 500, 429, None
ANSWERS = {200: 60, 204: 34, REFUSED: 3, FAILED: 1.5, BUSY: 1, HANGS: 0.3}
HANG_S, RETRY_AFTER_S = 25, 2
# Interval between two times that a receiver is down, on average, and their duration.
UP_S, DOWN_S = 25, (1, 5)
# Part of these times in which the receiver is asked for a test instead.
TESTS = 0.3
# Longest wait of a message for the answer that has the secret.
SECRET_S = 10
# Time in which messages have the signatures of both secrets: longer than a run.
OVERLAP_HOURS = 24
DELIVERIES_MAX = 100


class FeedReader(Client):
    """Reads the events of an account, or those of some types, from the beginning, and waits for the next ones."""

    pause_s = 0.2

    def __init__(self, world, name, seed, account, types=()):
        super().__init__(world, name, seed)
        self.account, self.types, self.after = account, types, None

    def act(self):
        self.read(self.draw.choice(WAITS_S))

    def read(self, wait_s):
        """Reads the next page. Returns true if the feed has no further event now."""
        parameters = {"limit": self.draw.choice(LIMITS), "wait": wait_s}
        parameters |= {"after": self.after} if self.after else {"from": "beginning"}
        parameters |= {"types": ",".join(self.types)} if self.types else {}
        operation = self.query("feed", f"/v1/events?{urlencode(parameters)}", headers=self.authorized(self.account),
                               account=self.account, types=list(self.types))
        if operation["status"] != 200:
            return False
        page = json.loads(operation["body"])
        self.after = page["next_cursor"]
        return not page["items"] and not page["has_more"]


class Receiver(Client):
    """Creates a webhook, replaces its secret once, and receives its messages. Some messages are answered badly or not at all,
    and at times nobody listens, until `is_well` is set."""

    # Until the webhook exists, the pause between two attempts to create the webhook.
    pause_s = 3

    def __init__(self, world, name, seed, ports, wanted, account=None, admin_key=None):
        super().__init__(world, name, seed)
        self.account, self.admin_key = account, admin_key
        self.port, outer_port = ports
        self.wanted = {"url": f"http://127.0.0.1:{outer_port}/{name}", **wanted}
        self.keys = {op: str(uuid.UUID(int=self.draw.getrandbits(128), version=4)) for op in ("webhook", "webhook-secret")}
        self.webhook, self.secrets, self.has_heads = None, [], False
        self.is_well, self.is_up, self.has_secret = threading.Event(), threading.Event(), threading.Event()
        self.lock, self.arrivals, self.draw_of_answers = threading.Lock(), 0, random.Random(f"{seed}/{name}/answers")
        self.server = None

    def act(self):
        if self.server is None:
            self.listen()
        if self.webhook is None:
            self.create()
        elif not self.is_well.is_set():
            self.pause_s = UP_S
            if len(self.secrets) == 1:
                self.rotate()
            elif self.draw.random() < TESTS:
                # Its success ends an illness too, also one whose next probe a jump of a clock has put off for hours.
                self.test()
            else:
                self.be_down(self.draw.uniform(*DOWN_S))

    def path(self):
        return "/v1/webhooks" if self.account else "/admin/v1/webhooks"

    def ask(self, op, method, path, body=None, **facts):
        """Sends a request about the webhook, to a process that has the API of its owner."""
        key = self.world.accounts[self.account] if self.account else self.admin_key
        headers = {"Authorization": f"Bearer {key}", **({"Content-Type": "application/json"} if body else {})}
        if op in self.keys:
            headers["Idempotency-Key"] = self.keys[op]
        stack = self.world.stack
        services = stack.queries if method == "GET" else stack.commands
        # The ingress leads to no admin API.
        service = self.draw.choice([*services, stack.nginx] if self.account else services)
        port = service.api_port if self.account else service.admin_port
        return self.requests.send(op, service, port, method, path, headers=headers, body=json.dumps(body) if body else None,
                                  account=self.account, webhook=self.webhook, **facts)

    def create(self):
        """Creates the webhook. Of an operators' webhook, which gets the events of all shards, the heads of the log before and
        after are recorded."""
        if not self.account and not self.has_heads and not self.record_heads("before"):
            return
        self.has_heads = True
        if not self.secrets:
            operation = self.ask("webhook", "POST", self.path(), self.wanted, sent=self.wanted)
            if operation["status"] != CREATED:
                return
            self.created = json.loads(operation["body"])
            self.secrets.append(self.created["secret"])
            self.has_secret.set()
        if self.account or self.record_heads("after"):
            self.webhook = self.created["id"]

    def record_heads(self, when):
        try:
            heads = [json.loads(line) for line in self.world.stack.sql(HEADS)]
        except subprocess.CalledProcessError:  # Postgres is away
            return False
        self.world.history.add({"op": "webhook-heads", "client": self.name, "when": when, "heads": heads})
        return True

    def listen(self):
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.server.receiver = self
        self.is_up.set()
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        if self.server:
            self.is_up.clear()
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def be_down(self, seconds):
        self.close()
        self.is_well.wait(seconds)
        self.listen()

    def receive(self, message_id, timestamp, signatures, body):
        """Records a message, and returns the status of its answer, or None for no answer."""
        with self.lock:
            self.arrivals += 1
            arrival, (answer,) = self.arrivals, self.draw_of_answers.choices([*ANSWERS], [*ANSWERS.values()])
        operation = {"op": "message", "client": self.name, "arrival": arrival, "message": message_id, "timestamp": timestamp,
                     "body": body.decode(errors="replace"), "start": time.monotonic()}
        if not self.has_secret.wait(SECRET_S):
            answer, operation["is_signed"] = FAILED, None
        else:
            signed = [is_signed(secret, message_id, timestamp, signatures, body) for secret in self.secrets]
            operation |= {"is_signed": any(signed), "is_of_newest": signed[-1]}
            if not any(signed):
                answer = REFUSED
            elif self.is_well.is_set():
                answer = ACCEPTED[0]
        if answer is HANGS:
            self.is_well.wait(HANG_S)
        self.world.history.add({**operation, "answer": answer, "end": time.monotonic()})
        return answer

    def state(self):
        """Returns the webhook as its owner reads it, or None."""
        operation = self.ask("webhook-state", "GET", f"{self.path()}/{self.webhook}")
        return json.loads(operation["body"]) if operation["status"] == 200 else None

    def retry_all(self, state):
        """Asks for a retry of each delivery in the state, up to a page of them."""
        path = f"{self.path()}/{self.webhook}/deliveries"
        operation = self.ask("webhook-deliveries", "GET", f"{path}?{urlencode({'state': state, 'limit': DELIVERIES_MAX})}")
        if operation["status"] == 200:
            for delivery in json.loads(operation["body"])["items"]:
                self.ask("webhook-retry", "POST", f"{path}/{delivery['id']}/retry", delivery=delivery["id"])

    def rotate(self):
        """Replaces the secret; messages on their way have the signature of the one before."""
        operation = self.ask("webhook-secret", "POST", f"{self.path()}/{self.webhook}/rotate-secret",
                             {"overlap_hours": OVERLAP_HOURS})
        if operation["status"] == 200:
            self.secrets.append(json.loads(operation["body"])["secret"])

    def test(self):
        """Asks for a test, whose success ends an illness before the next probe."""
        self.ask("webhook-test", "POST", f"{self.path()}/{self.webhook}/test")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    # Room for all requests that a dispatcher has in flight: the kernel drops what does not fit, and the next attempt to
    # connect comes seconds later, at last when the dispatcher has long given up.
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A connection that a fault has ended is no error."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length, receiver = int(self.headers["Content-Length"]), self.server.receiver
        body = self.rfile.read(length)
        # A server that is down has connections left, and a reset ends a connection in the middle of a body.
        if len(body) < length or not receiver.is_up.is_set():
            self.close_connection = True
            return
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        answer = receiver.receive(*(self.headers.get(name, "") for name in names), body)
        if answer is HANGS:
            self.close_connection = True
            return
        self.send_response(answer)
        if answer == BUSY:
            self.send_header("Retry-After", str(RETRY_AFTER_S))
        if answer != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Messages are in the history."""


def is_signed(secret, message_id, timestamp, signatures, body):
    """Returns true if one of the signatures, separated by spaces, is that of the message (Standard Webhooks 1.0)."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    code = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    wanted = f"v1,{base64.b64encode(code).decode()}"
    return any(hmac.compare_digest(wanted, signature) for signature in signatures.split(" "))
