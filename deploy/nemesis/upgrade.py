"""Upgrade of a release under load: the processes begin with its programs, and are replaced one by one in the order of
docs/backup.md#upgrade, while clients and faults continue."""

import json
import threading
import time
import uuid

from clients.client import CREATED
from history import Requests
from stack import Service, eventually

PAUSE_S = 2


class Upgrade(threading.Thread):
    """Migrates, and replaces projectors, dispatchers, query-apis and command-apis. Before the last old process is gone, a link with details
    is written by a new command-api, and read from each query-api."""

    def __init__(self, world, programs, busy, begin_s, seed, account, key):
        super().__init__(name="upgrade", daemon=True)
        self.world, self.stack, self.programs, self.busy, self.begin_s = world, world.stack, programs, busy, begin_s
        self.requests = Requests(world.history, self.name)
        self.account, self.key, self.failure = account, key, None
        self.create_key = str(uuid.UUID(int=seed, version=4))

    def run(self):
        try:
            time.sleep(self.begin_s)
            self.stack.programs = self.programs
            eventually("the migrations are done", self.migrate)
            *earlier, last = [*self.stack.projectors, *self.stack.dispatchers, *self.stack.queries, *self.stack.commands]
            for service in earlier:
                self.replace(service)
                time.sleep(PAUSE_S)
            eventually("a link with details is created", self.create)
            self.replace(last)
        except BaseException as error:
            self.failure = error
            raise

    def migrate(self):
        try:
            return self.stack.operate("migrate") is not None
        except Exception:  # Postgres is away
            return False

    def replace(self, service):
        with self.busy.setdefault(service.name, threading.Lock()):
            operation = {"op": "fault", "client": self.name, "kind": "upgrade", "target": service.name, "start": time.monotonic()}
            service.stop()
            service.command[0] = self.stack.program(service.program)
            Service.start(service)
            operation["further_starts"] = self.stack.wait_until_ready(service)
            self.world.history.add({**operation, "end": time.monotonic()})

    def create(self):
        """Creates a link with details at the new command-api. Returns true if each query-api has the details."""
        sent = {"destination_url": "https://example.com/upgraded", "title": "Upgraded", "tags": ["a", "b"]}
        headers = {"Authorization": f"Bearer {self.key}"}
        written = {**headers, "Content-Type": "application/json", "Idempotency-Key": self.create_key}
        new = self.stack.commands[0]
        created = self.requests.send("create", new, new.api_port, "POST", "/v1/links", headers=written, body=json.dumps(sent),
                                     account=self.account, key=self.create_key, sent=sent)
        if created["status"] != CREATED:
            return False
        link, token = json.loads(created["body"]), created["headers"]["Consistency-Token"]
        for query in self.stack.queries:
            read = self.requests.send("get", query, query.api_port, "GET", f"/v1/links/{link['id']}", link=link["id"],
                                      headers={**headers, "Consistency-Token": token}, account=self.account, token=token)
            if read["status"] != 200:
                return False
            found = json.loads(read["body"])
            if (found.get("title"), found.get("tags")) != (sent["title"], sent["tags"]):
                raise SystemExit(f"{query.name} lacks the details of {link['id']}: {read['body']}")
        return True
