"""Starts both receivers of docs/examples, lets the running stack send them webhooks, and waits until each has printed
a test and a created link, and then three more links that came in order, in lists. Its library has verified the
signatures.

usage: check_webhooks.py RECEIVER_JS, compiled of docs/examples/receive_webhooks.ts, from the root of the repository;
settings are API_URL and API_KEY of `.linkledger/env`. Needs the package standardwebhooks.
"""

import collections
import contextlib
import json
import os
import pathlib
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid

DEADLINE_S = 60
EXPECTED = ["webhook.test", "link.created"]
EXPECTED_IN_ORDER = ["link.created"] * 3


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {
        "Authorization": f"Bearer {os.environ['API_KEY']}",
        "Content-Type": "application/json",
        "Idempotency-Key": str(uuid.uuid4()),
    }
    request = urllib.request.Request(os.environ["API_URL"] + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until_listening(process, port):
    until = time.monotonic() + DEADLINE_S
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    sys.exit(f"{process.args} does not listen")


@contextlib.contextmanager
def receiver(command):
    """Runs a receiver with a webhook of its own; yields the webhook and a queue of the lines that it prints."""
    port = free_port()
    webhook = call("POST", "/v1/webhooks", {"url": f"http://127.0.0.1:{port}/hook"})
    environment = os.environ | {"WEBHOOK_SECRET": webhook["secret"]}
    lines = queue.Queue()
    process = subprocess.Popen([*command, str(port)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    threading.Thread(target=lambda: [lines.put(line) for line in process.stdout], daemon=True).start()
    try:
        wait_until_listening(process, port)
        yield webhook, lines
    finally:
        process.kill()
        process.wait()
        call("DELETE", f"/v1/webhooks/{webhook['id']}")


def create_link():
    call("POST", "/v1/links", {"destination_url": "https://example.com/"})


def wait_for_messages(name, lines, expected):
    missing, until = collections.Counter(expected), time.monotonic() + DEADLINE_S
    while missing:
        try:
            line = lines.get(timeout=max(0, until - time.monotonic()))
        except queue.Empty:
            sys.exit(f"{name} has not received {sorted(missing)} within {DEADLINE_S} s")
        missing -= collections.Counter(line.split()[:1])
    print(f"{name}: {', '.join(expected)}")


def main(compiled):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        commands = {
            "receive_webhooks.py": [sys.executable, "docs/examples/receive_webhooks.py", folder / "messages.sqlite"],
            "receive_webhooks.ts": ["node", compiled],
        }
        receivers = {name: stack.enter_context(receiver(command)) for name, command in commands.items()}
        for webhook, _ in receivers.values():
            call("POST", f"/v1/webhooks/{webhook['id']}/test")
        create_link()
        for name, (_, lines) in receivers.items():
            wait_for_messages(name, lines, EXPECTED)
        for webhook, _ in receivers.values():
            call("PATCH", f"/v1/webhooks/{webhook['id']}", {"in_order": True})
        for _ in EXPECTED_IN_ORDER:
            create_link()
        for name, (_, lines) in receivers.items():
            wait_for_messages(name, lines, EXPECTED_IN_ORDER)


if __name__ == "__main__":
    main(*sys.argv[1:])
