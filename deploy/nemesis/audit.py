"""The last look, after all faults: waits until nothing is behind, and reads everything that the judge compares."""

import datetime
import json
import random
import time

from clients.client import Client
from clients.details import STATES
from clients.listers import Lister
from stack import eventually

READY_DEADLINE_S = 120
QUIET_DEADLINE_S = 180
# Services on a busy host refuse reads long after the last fault. All last reads together wait at most so long for them.
PATIENCE_S, RETRY_S = 120, 1
REFUSALS = ("overloaded", "storage_unavailable")
# Links that are read one by one; lists compare all links.
READ_LINKS_MAX, CLICKS_LINKS_MAX = 600, 3000
LIMIT_MAX = 100
SUSPENDED = 403
LAST_FILTERS = [*({"state": state} for state in STATES), {"tag": "tag-1"}, {"tag": "all", "state": "active"},
                *({"external_id": f"id:{number}"} for number in range(5))]

LOG = """SELECT json_build_object('shard', shard, 'position', position, 'stream', stream_id, 'version', version,
    'account', account_id, 'event', event_id, 'type', type, 'payload', payload::text, 'key', idempotency_key,
    'recorded_s', extract(epoch FROM recorded_at))
    FROM event_store.events ORDER BY shard, position"""
ACCOUNTS = "SELECT json_build_object('account', account_id, 'balance', balance, 'status', status) FROM event_store.accounts"
HEADS = "SELECT json_build_object('shard', shard, 'head', head) FROM event_store.log_shards"
NOW = "SELECT extract(epoch FROM now())"
# Rows of which events of the log will be made before the end of the last look.
UNOBSERVED = """SELECT (SELECT count(*) FROM event_store.link_expiries WHERE expires_at <= now() + interval '1 hour')
    + (SELECT count(*) FROM clicks.first_clicks WHERE announced_at IS NULL)
    + (SELECT count(*) FROM clicks.link_minutes WHERE minute <= now())"""
# Clicks of minutes to come, of query-apis whose clocks were ahead.
MINUTES_LEFT = """SELECT json_build_object('link', link_id, 'clicks', sum(clicks), 'bots', sum(bots))
    FROM clicks.link_minutes GROUP BY link_id"""


class Audit:
    def __init__(self, world, operator, consumer, subscribers):
        self.world, self.operator, self.consumer, self.stack = world, operator, consumer, world.stack
        self.subscribers = subscribers
        # Time of day at the beginning of the clock that the histories have.
        self.facts = {
            "wall_s": time.time() - time.monotonic(),
            "redirect_staleness_s": self.stack.redirect_staleness_s,
        }
        self.patience_s = PATIENCE_S

    def ask(self, send, *arguments, **options):
        """Repeats a read that an overloaded process refuses. The judge takes the last answer."""
        operation, begun = send(*arguments, **options), time.monotonic()
        while is_refused(operation) and time.monotonic() - begun < self.patience_s:
            time.sleep(RETRY_S)
            operation = send(*arguments, **options)
        self.patience_s -= time.monotonic() - begun

    def wait_until_ready(self):
        """Waits until each process is ready, without any restart."""
        healed = time.monotonic()
        for service in (*self.stack.of_linkledger, self.stack.nginx):
            eventually(f"{service.name} is ready", service.is_ready, READY_DEADLINE_S)
        self.facts["ready_after_s"] = time.monotonic() - healed

    def look(self):
        ended = time.monotonic()
        self.operator.restore_order()
        eventually("all events are published", self.is_published, QUIET_DEADLINE_S)
        eventually("all events are applied", self.is_applied, QUIET_DEADLINE_S)
        self.facts["quiet_after_s"] = time.monotonic() - ended
        eventually("no process answers as for a suspended account", self.is_nobody_suspended, READY_DEADLINE_S)
        # Before the log: a redirect is a click, and clicks become events.
        self.read_all()
        self.read_clicks()
        self.wait_for_observations()
        self.facts["webhooks"] = self.subscribers.settle()
        self.facts["settled_after_s"] = time.monotonic() - ended
        self.facts["log"] = [json.loads(line) for line in self.stack.sql(LOG)]
        self.facts["accounts"] = [json.loads(line) for line in self.stack.sql(ACCOUNTS)]
        self.facts["heads"] = [json.loads(line) for line in self.stack.sql(HEADS)]
        self.wait_for_consumer()
        for program, arguments in (("projector", ["verify"]), ("command-api", ["log", "verify"])):
            self.operator.operate(program, *arguments, kind="last-verify")
        self.facts["nginx_retries"] = self.stack.nginx.retries()

    def is_published(self):
        status = self.operator.operate("command-api", "relay", "status", kind="status")
        return status["exit"] == 0 and json.loads(status["out"])["backlog_events"] == 0

    def is_applied(self):
        lags = self.stack.sql("SELECT count(*) FROM event_store.log_shards s LEFT JOIN read_model.checkpoints c "
                              "ON c.shard = s.shard AND c.role = 'live' WHERE s.head > COALESCE(c.position, 0)")
        return lags == ["0"]

    def wait_for_observations(self):
        """Waits until the log has all events that no request causes: of expiries, and of clicks."""
        (self.facts["observed_until_s"],) = map(float, self.stack.sql(NOW))
        eventually("expiries and clicks are in the log", lambda: self.stack.sql(UNOBSERVED) == ["0"], QUIET_DEADLINE_S)
        self.facts["minutes_left"] = [json.loads(line) for line in self.stack.sql(MINUTES_LEFT)]

    def is_nobody_suspended(self):
        """Returns true once each process that reads knows the end of all suspensions, which takes up to 5 s."""
        auditor = Client(self.world, "auditor-of-accounts", 0)
        return all(
            auditor.requests.send("probe", query, query.api_port, "GET", "/v1/links?limit=1", account=account,
                                  headers=auditor.authorized(account))["status"] != SUSPENDED
            for query in self.stack.queries for account in self.world.accounts)

    def wait_for_consumer(self):
        """Waits until the consumer has printed as many different events as the log has."""
        wanted = len(self.facts["log"])

        def has_all():
            with self.consumer.output.open() as lines:
                return len({line.split("ce_id:", 1)[1].split(",", 1)[0] for line in lines if "ce_id:" in line}) >= wanted

        deadline = time.monotonic() + QUIET_DEADLINE_S
        while not has_all() and time.monotonic() < deadline:
            time.sleep(1)

    def read_all(self):
        """Reads links by id and by slug in each process, and all lists; the judge compares them with the log."""
        auditor = Client(self.world, "auditor", 0)
        with self.world.lock:
            links = list(self.world.links.values())
        sample = random.Random(len(links)).sample(links, min(READ_LINKS_MAX, len(links)))
        for link in sample:
            for query in (*self.stack.queries, self.stack.nginx):
                headers = auditor.authorized(link["account"])
                self.ask(auditor.requests.send, "get", query, query.api_port, "GET", f"/v1/links/{link['id']}", headers=headers,
                         link=link["id"], account=link["account"], token=None, is_last=True)
                self.ask(auditor.requests.send, "redirect", query, query.short_port, "GET", f"/{link['slug']}", link=link["id"],
                         headers={"User-Agent": "curl/8", "Accept": "application/json"}, is_last=True)
        lister = Lister(self.world, "auditor-of-lists", 0)
        for account in self.world.accounts:
            self.ask(lister.balance, account, None, lister.draw_service())
            for collection, filters in (("links", {}), ("entries", {}), *(("links", filters) for filters in LAST_FILTERS)):
                if not lister.scan(collection, account, None, LIMIT_MAX, filters):
                    raise SystemExit(f"the last list of {collection} of {account} with {filters} has no end")

    def read_clicks(self):
        """Reads the clicks of each visited link once they are complete."""
        visited = time.time()
        auditor = Client(self.world, "auditor-of-clicks", 0)
        account, key = next(iter(self.world.accounts.items()))

        def complete():
            operation = auditor.query("clicks-probe", "/v1/clicks", headers=auditor.authorized(account))
            if operation["status"] != 200:
                return False
            until = json.loads(operation["body"])["complete_until"]
            return datetime.datetime.fromisoformat(until).timestamp() > visited

        eventually("clicks are complete", complete, QUIET_DEADLINE_S)
        with self.world.lock:
            links = list(self.world.links.values())
        for link in random.Random(len(links)).sample(links, min(CLICKS_LINKS_MAX, len(links))):
            headers = auditor.authorized(link["account"])
            self.ask(auditor.query, "clicks", f"/v1/links/{link['id']}/clicks", auditor.draw_service(), headers=headers, link=link["id"])

    def save(self, folder):
        (folder / "facts.json").write_text(json.dumps(self.facts))
        # A look that could not be completed may have neither.
        for name, source in (("nginx-access.log", self.stack.nginx.log), ("stream.txt", self.consumer.output)):
            (folder / name).write_bytes(source.read_bytes() if source.exists() else b"")


def is_refused(operation):
    return operation["status"] == 503 and any(f'"{code}"' in operation["body"] for code in REFUSALS)
