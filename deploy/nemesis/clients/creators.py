"""Clients that create links, one by one and in batches."""

import json
import threading
import time
import uuid

from .client import ATTEMPTS_MAX, CREATED, UNKNOWN, Client
from .details import new_details

BATCH_ITEMS_MAX, REPEATED_ITEMS_MAX = 8, 3


class Creator(Client):
    """Creates links: retries what is unknown, repeats what has succeeded, and sends one key several times at once."""

    def act(self):
        chance = self.draw.random()
        if chance < 0.15 and self.world.creates:
            self.repeat()
            return
        account, key, body = self.any_account(), self.new_key(), self.new_link()
        if self.draw.random() < 0.2:
            threads = [threading.Thread(target=self.create, args=(account, key, body)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            self.create(account, key, body)

    def any_account(self):
        return self.draw.choice(list(self.world.accounts))

    def new_key(self):
        return str(uuid.UUID(int=self.draw.getrandbits(128), version=4))

    def new_link(self):
        number = self.world.unique()
        body = {"destination_url": f"https://example.com/created/{number}"}
        if self.draw.random() < 0.3:
            # Few slugs, so that many are taken.
            body["slug"] = f"shared-{self.draw.randrange(5 + number // 4)}"
        return body | (new_details(self.draw, self.world.unique()) if self.draw.random() < 0.4 else {})

    def create(self, account, key, sent):
        """Sends a create until its outcome is known, or gives up."""
        for attempt in range(ATTEMPTS_MAX):
            operation = self.post(account, key, sent)
            if operation["status"] == CREATED:
                link, token = json.loads(operation["body"]), operation["headers"]["Consistency-Token"]
                self.world.created(account, key, sent, link, token)
                return
            is_to_retry = operation["status"] in (*UNKNOWN, 503) or "idempotency_key_in_use" in operation["body"]
            if not is_to_retry or self.draw.random() < 0.1:
                return
            time.sleep(0.1 * 2**attempt)

    def post(self, account, key, sent):
        headers = self.authorized(account, **{"Content-Type": "application/json", "Idempotency-Key": key})
        return self.command("create", "POST", "/v1/links", headers=headers, body=json.dumps(sent),
                            account=account, key=key, sent=sent)

    def repeat(self):
        with self.world.lock:
            create = self.draw.choice(self.world.creates)
        sent = create["sent"]
        if self.draw.random() < 0.2:
            sent = {"destination_url": f"https://example.com/reused/{self.world.unique()}"}
        self.post(create["account"], create["key"], sent)


class Batcher(Creator):
    """Creates links in batches: partial ones with old keys among them, sent again in other groups until each item is
    decided; atomic ones; and dry runs."""

    pause_s = 0.4

    def act(self):
        account = self.any_account()
        count = self.draw.randint(1, BATCH_ITEMS_MAX)
        items = [{"key": self.new_key(), "sent": self.new_link()} for _ in range(count)]
        chance = self.draw.random()
        if chance < 0.1:
            self.send(account, "dry_run", items)
        elif chance < 0.4:
            self.send_until_decided(account, "atomic", items)
        else:
            self.send_until_decided(account, "partial", [*items, *self.old_items(account)])

    def old_items(self, account):
        with self.world.lock:
            mine = [create for create in self.world.creates if create["account"] == account]
        old = self.draw.sample(mine, min(len(mine), self.draw.randint(0, REPEATED_ITEMS_MAX)))
        return list({create["key"]: {"key": create["key"], "sent": create["sent"]} for create in old}.values())

    def send_until_decided(self, account, mode, items):
        for attempt in range(ATTEMPTS_MAX):
            # Items of a partial batch may come again in any grouping.
            middle = self.draw.randint(0, len(items)) if attempt and mode == "partial" else 0
            groups = [group for group in (items[:middle], items[middle:]) if group]
            items = [item for group in groups for item in self.undecided(account, mode, group)]
            if not items:
                return
            time.sleep(0.1 * 2**attempt)

    def undecided(self, account, mode, items):
        """Sends a batch, and returns the items whose outcome can still change."""
        operation = self.send(account, mode, items)
        if operation["status"] not in (201, 207):
            return items if operation["status"] in (*UNKNOWN, 503) or "idempotency_key_in_use" in operation["body"] else []
        answer, left = json.loads(operation["body"]), []
        for item, outcome in zip(items, answer["items"], strict=True):
            if outcome["status"] == CREATED:
                token = operation["headers"]["Consistency-Token"]
                self.world.created(account, item["key"], item["sent"], outcome["link"], token)
            elif outcome["status"] in (503, 504) or outcome["problem"]["code"] == "idempotency_key_in_use":
                left.append(item)
        return left

    def send(self, account, mode, items):
        body = {"mode": mode, "items": [{"idempotency_key": item["key"], **item["sent"]} for item in items]}
        headers = self.authorized(account, **{"Content-Type": "application/json"})
        return self.command("batch", "POST", "/v1/links/batch", headers=headers, body=json.dumps(body),
                            account=account, mode=mode, items=items)
