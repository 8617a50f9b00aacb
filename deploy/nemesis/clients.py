"""Clients of the API and of the short host, each a thread with a random generator of its own. A third of the requests goes
through nginx."""

import datetime
import json
import random
import threading
import time
import uuid
from urllib.parse import urlencode

from history import Requests

ATTEMPTS_MAX = 6
# Links that are changed and read again and again; few, so that clients contend for them.
HOT_LINKS_MAX = 12
SCAN_PAGES_MAX = 400
HUMAN = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
CREATED, UNKNOWN = 201, (None, 504)
FIRST_ETAG = '"1"'
BATCH_ITEMS_MAX, REPEATED_ITEMS_MAX = 8, 3
# Time until a link expires: some have expired when they are created, some expire during the run, some long after it.
SOON_S, LATER_S = (-4, 25), (86_400, 10_000_000)
DETAILS = ("title", "tags", "external_id", "expires_at", "expired_url")
STATES = ("active", "disabled", "expired")


class World:
    """Accounts and links that clients share."""

    def __init__(self, stack, history, accounts):
        self.stack, self.history, self.accounts = stack, history, accounts
        self.lock, self.links, self.hot, self.creates = threading.Lock(), {}, [], []
        self.is_ending = threading.Event()
        self.counter = 0
        # False while processes of an earlier release may run that do not know details of links.
        self.has_details = True

    def unique(self):
        with self.lock:
            self.counter += 1
            return self.counter

    def created(self, account, key, sent, link, token):
        with self.lock:
            known = self.links.setdefault(link["id"], {
                "id": link["id"], "slug": link["short_url"].rsplit("/", 1)[1], "account": account,
                "etag": FIRST_ETAG, "token": token, "expires_at": link.get("expires_at"),
            })
            if known not in self.hot:
                self.hot = [*self.hot, known][-HOT_LINKS_MAX:]
            self.creates.append({"account": account, "key": key, "sent": sent})

    def changed(self, link, operation):
        with self.lock:
            link["etag"] = operation["headers"].get("ETag", link["etag"])
            link["token"] = operation["headers"].get("Consistency-Token", link["token"])
            if operation["status"] == 200:
                link["expires_at"] = json.loads(operation["body"]).get("expires_at")

    def newest_token(self, account):
        with self.lock:
            tokens = [link["token"] for link in self.hot if link["account"] == account]
        return tokens[-1] if tokens else None


class Client(threading.Thread):
    """A client that repeats one of its actions until the world ends."""

    pause_s = 0.1

    def __init__(self, world, name, seed):
        super().__init__(name=name, daemon=True)
        self.world, self.draw = world, random.Random(f"{seed}/{name}")
        self.requests, self.failure = Requests(world.history, name), None

    def run(self):
        try:
            while not self.world.is_ending.wait(self.draw.uniform(0, 2 * self.pause_s)):
                self.act()
        except Exception as error:
            self.failure = error
            raise

    def authorized(self, account, **headers):
        return {"Authorization": f"Bearer {self.world.accounts[account]}", **headers}

    def any_link(self):
        with self.world.lock:
            hot, links = self.world.hot, self.world.links
            if not links:
                return None
            return dict(self.draw.choice(hot if self.draw.random() < 0.8 else list(links.values())))

    def new_details(self):
        """Draws details: few external ids, so that many are taken, and all members or some."""
        number = self.world.unique()
        found = {"title": f"Link {number}", "tags": [f"tag-{number % 7}", "all"]}
        if self.draw.random() < 0.5:
            found["external_id"] = any_external_id(self.draw, number)
        if self.draw.random() < 0.5:
            instant = time.time() + self.draw.uniform(*self.draw.choice([SOON_S, LATER_S]))
            text = datetime.datetime.fromtimestamp(instant, datetime.UTC).isoformat(timespec="milliseconds")
            found["expires_at"] = text.replace("+00:00", "Z")
            if self.draw.random() < 0.5:
                found["expired_url"] = f"https://example.com/expired/{number}"
        return found

    def command(self, op, method, path, **options):
        service = self.draw.choice([*self.world.stack.commands, self.world.stack.nginx])
        return self.requests.send(op, service, service.api_port, method, path, **options)

    def query(self, op, path, **options):
        service = self.draw.choice([*self.world.stack.queries, self.world.stack.nginx])
        return self.requests.send(op, service, service.api_port, "GET", path, **options)


def any_external_id(draw, number):
    return f"id:{draw.randrange(5 + number // 8)}"


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
        return body | (self.new_details() if self.world.has_details and self.draw.random() < 0.4 else {})

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


class Changer(Client):
    """Changes, disables, enables and deletes links, with the newest tag, a stale tag or none."""

    def act(self):
        link = self.any_link()
        if link is None:
            return
        if_match = self.draw.choice([None, link["etag"], link["etag"], f'"{self.draw.randrange(1, 5)}"'])
        headers = self.authorized(link["account"]) | ({"If-Match": if_match} if if_match else {})
        facts = {"link": link["id"], "account": link["account"], "if_match": if_match}
        path = f"/v1/links/{link['id']}"
        if self.draw.random() < 0.1:
            operation = self.command("delete", "DELETE", path, headers=headers, **facts)
            if operation["status"] == 204:
                self.forget(link)
            return
        sent = self.new_patch(link)
        headers["Content-Type"] = "application/merge-patch+json"
        for _ in range(self.draw.choice([1, 1, 1, 2])):
            operation = self.command("patch", "PATCH", path, headers=headers, body=json.dumps(sent), sent=sent, **facts)
            if operation["status"] in (200, 412):
                self.world.changed(self.world.links[link["id"]], operation)

    def new_patch(self, link):
        """Draws a change of the destination, of details, of the service, or of several of them."""
        sent = {}
        if self.world.has_details and self.draw.random() < 0.5:
            details = self.new_details()
            if "expires_at" not in details:
                # No expiry, or the same as before.
                details["expires_at"] = self.draw.choice([None, link["expires_at"]])
            names = [name for name in DETAILS if self.draw.random() < 0.6 or name == "expires_at" and "expired_url" in details]
            sent = {name: details.get(name) for name in names if name in details or name in ("external_id", "expired_url")}
            if self.draw.random() < 0.1:
                sent |= {"title": None, "tags": []}
        if self.world.has_details and self.draw.random() < 0.2:
            sent["disabled"] = self.draw.choice([True, False, False, None])
        if not sent or self.draw.random() < 0.5:
            sent["destination_url"] = f"https://example.com/changed/{self.world.unique()}"
        return sent

    def forget(self, link):
        with self.world.lock:
            self.world.hot = [hot for hot in self.world.hot if hot["id"] != link["id"]]


class Reader(Client):
    """Reads links by id, half of the time with the token of their newest change."""

    pause_s = 0.05

    def act(self):
        link = self.any_link()
        if link is None:
            return
        token = link["token"] if self.draw.random() < 0.5 else None
        headers = self.authorized(link["account"]) | ({"Consistency-Token": token} if token else {})
        self.query("get", f"/v1/links/{link['id']}", headers=headers, link=link["id"], account=link["account"], token=token)


class Visitor(Client):
    """Follows short links; each redirect is a click."""

    pause_s = 0.05

    def act(self):
        link = self.any_link()
        if link is None:
            return
        service = self.draw.choice([*self.world.stack.queries, self.world.stack.nginx])
        self.requests.send("redirect", service, service.short_port, "GET", f"/{link['slug']}", link=link["id"],
                           headers={"User-Agent": HUMAN, "Accept": "application/json"})


class Lister(Client):
    """Reads balances, and lists to their ends, half of the time with a token."""

    pause_s = 0.5

    def act(self):
        account = self.draw.choice(list(self.world.accounts))
        token = self.world.newest_token(account) if self.draw.random() < 0.5 else None
        if self.draw.random() < 0.4:
            self.balance(account, token)
        else:
            collection = self.draw.choice(["links", "links", "entries"])
            filters = self.any_filters() if collection == "links" and self.world.has_details else {}
            self.scan(collection, account, token, self.draw.choice([5, 10, 30, 100]), filters)

    def any_filters(self):
        number = self.world.unique()
        return self.draw.choice([
            {}, {"tag": f"tag-{number % 7}"}, {"tag": f"all,tag-{number % 7}"}, {"state": self.draw.choice(STATES)},
            {"external_id": any_external_id(self.draw, number)}, {"tag": "all", "state": self.draw.choice(STATES)}])

    def headers(self, account, token):
        return self.authorized(account) | ({"Consistency-Token": token} if token else {})

    def balance(self, account, token):
        return self.query("credits", "/v1/credits", headers=self.headers(account, token), account=account, token=token)

    def scan(self, collection, account, token, limit, filters):
        """Reads a list to its end; False if a page was refused too often, or if there are too many pages."""
        path = {"links": "/v1/links", "entries": "/v1/credits/entries"}[collection]
        scan, cursor = self.world.unique(), None
        for page in range(SCAN_PAGES_MAX):
            address = f"{path}?{urlencode({'limit': limit, **filters, **({'cursor': cursor} if cursor else {})})}"
            for _ in range(ATTEMPTS_MAX):
                operation = self.query("list", address, headers=self.headers(account, token), account=account,
                                       token=token, scan=scan, page=page, collection=collection, filters=filters)
                if operation["status"] not in (*UNKNOWN, 503):
                    break
                time.sleep(0.3)
            if operation["status"] != 200:
                return False
            cursor = json.loads(operation["body"])["next_cursor"]
            if cursor is None:
                return True
        return False
