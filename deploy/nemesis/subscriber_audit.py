"""The last look at subscribers: waits until no webhook has anything to send, and until the feeds are read to their ends."""

import json
import subprocess
import time

from judge.evidence import text_id

SETTLE_DEADLINE_S, FEEDS_DEADLINE_S, POLL_S, PAGE_PAUSE_S = 480, 120, 1, 0.1
# A webhook is behind in the shards where events that it could want follow its cursor.
WEBHOOKS = """SELECT json_build_object('webhook', w.webhook_id, 'enabled', w.enabled, 'ill', h.ill_since IS NOT NULL,
    'waiting', (SELECT count(*) FROM event_store.webhook_deliveries d WHERE d.webhook_id = w.webhook_id AND d.state = 'waiting'),
    'failed', (SELECT count(*) FROM event_store.webhook_deliveries d WHERE d.webhook_id = w.webhook_id AND d.state = 'failed'),
    'behind', (SELECT count(*) FROM event_store.webhook_cursors c WHERE c.webhook_id = w.webhook_id AND c.position < (
        SELECT max(e.position) FROM event_store.events e
        WHERE e.shard = c.shard AND (w.all_accounts OR e.account_id = w.account_id))))
    FROM event_store.webhooks w JOIN event_store.webhook_health h USING (webhook_id)"""
AT_REST = {"enabled": True, "ill": False, "waiting": 0, "failed": 0, "behind": 0}


class SubscriberAudit:
    """Waits as long as needed, up to a deadline: the judge tells what is missing then."""

    def __init__(self, stack, readers, receivers):
        self.stack, self.readers, self.receivers = stack, readers, receivers

    def settle(self):
        """Returns the state of each webhook in the database."""
        deadline = time.monotonic() + SETTLE_DEADLINE_S
        for receiver in self.receivers:
            receiver.is_well.set()
        while not self.are_at_rest() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        # A failed attempt may have appended a notice to the log.
        deadline = time.monotonic() + FEEDS_DEADLINE_S
        for reader in self.readers:
            while not reader.read(0) and time.monotonic() < deadline:
                time.sleep(PAGE_PAUSE_S)
        for receiver in self.receivers:
            receiver.close()
        return self.webhooks()

    def are_at_rest(self):
        # Of all receivers, not only up to the first: each heals at once.
        return all([self.heal(receiver) for receiver in self.receivers if receiver.webhook])

    def heal(self, receiver):
        """Ends an illness, and sends again what waits or has failed, since the schedule of the service has hours. Returns true
        if there was nothing to do."""
        state = receiver.state()
        if state is None:
            return False
        if state["health"]["state"] == "ill":
            receiver.test()
        for kind in ("waiting", "failed"):
            if state[kind]:
                receiver.retry_all(kind)
        is_healed = state["health"]["state"] == "healthy" and not state["waiting"] and not state["failed"]
        return is_healed and self.webhooks().get(receiver.webhook) == AT_REST

    def webhooks(self):
        try:
            rows = [json.loads(line) for line in self.stack.sql(WEBHOOKS)]
        except subprocess.CalledProcessError:  # Postgres is away
            return {}
        return {text_id("whe", row.pop("webhook")): row for row in rows}
