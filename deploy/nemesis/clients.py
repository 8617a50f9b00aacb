"""Clients of the API and of the short host, each a thread with a random generator of its own."""

import json
import random
import threading
import time
import uuid

from history import Requests

ATTEMPTS_MAX = 6
# Links that are changed and read again and again; few, so that clients contend for them.
HOT_LINKS_MAX = 12
SCAN_PAGES_MAX = 400
HUMAN = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
CREATED, UNKNOWN = 201, (None, 504)


class World:
    """Accounts and links that clients share."""

    def __init__(self, stack, history, accounts):
        self.stack, self.history, self.accounts = stack, history, accounts
        self.lock, self.links, self.hot, self.creates = threading.Lock(), {}, [], []
        self.is_ending = threading.Event()
        self.counter = 0

    def unique(self):
        with self.lock:
            self.counter += 1
            return self.counter

    def created(self, operation):
        link = json.loads(operation["body"])
        with self.lock:
            known = self.links.setdefault(link["id"], {
                "id": link["id"], "slug": link["short_url"].rsplit("/", 1)[1], "account": operation["account"],
                "etag": operation["headers"]["ETag"], "token": operation["headers"]["Consistency-Token"],
            })
            if known not in self.hot:
                self.hot = [*self.hot, known][-HOT_LINKS_MAX:]
            self.creates.append({name: operation[name] for name in ("account", "key", "sent")})

    def changed(self, link, operation):
        with self.lock:
            link["etag"] = operation["headers"].get("ETag", link["etag"])
            link["token"] = operation["headers"].get("Consistency-Token", link["token"])

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

    def command(self, op, method, path, **options):
        service = self.draw.choice(self.world.stack.commands)
        return self.requests.send(op, service, service.api_port, method, path, **options)

    def query(self, op, path, **options):
        service = self.draw.choice(self.world.stack.queries)
        return self.requests.send(op, service, service.api_port, "GET", path, **options)


class Creator(Client):
    """Creates links: retries what is unknown, repeats what has succeeded, and sends one key several times at once."""

    def act(self):
        chance = self.draw.random()
        if chance < 0.15 and self.world.creates:
            self.repeat()
            return
        number = self.world.unique()
        body = {"destination_url": f"https://example.com/created/{number}"}
        if self.draw.random() < 0.3:
            # Few slugs, so that many are taken.
            body["slug"] = f"shared-{self.draw.randrange(5 + number // 4)}"
        account, key = self.draw.choice(list(self.world.accounts)), str(uuid.UUID(int=self.draw.getrandbits(128), version=4))
        if self.draw.random() < 0.2:
            threads = [threading.Thread(target=self.create, args=(account, key, body)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            self.create(account, key, body)

    def create(self, account, key, sent):
        """Sends a create until its outcome is known, or gives up."""
        for attempt in range(ATTEMPTS_MAX):
            operation = self.post(account, key, sent)
            if operation["status"] == CREATED:
                self.world.created(operation)
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


class Changer(Client):
    """Changes and deletes links, with the newest tag, a stale tag or none."""

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
        destination = f"https://example.com/changed/{self.world.unique()}"
        body = json.dumps({"destination_url": destination})
        headers["Content-Type"] = "application/merge-patch+json"
        for _ in range(self.draw.choice([1, 1, 1, 2])):
            operation = self.command("patch", "PATCH", path, headers=headers, body=body, destination=destination, **facts)
            if operation["status"] in (200, 412):
                self.world.changed(self.world.links[link["id"]], operation)

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
        service = self.draw.choice(self.world.stack.queries)
        self.requests.send("redirect", service, service.short_port, "GET", f"/{link['slug']}", link=link["id"],
                           headers={"User-Agent": HUMAN, "Accept": "application/json"})


class Lister(Client):
    """Reads balances, and lists to their ends, half of the time with a token."""

    pause_s = 0.5

    def act(self):
        account = self.draw.choice(list(self.world.accounts))
        token = self.world.newest_token(account) if self.draw.random() < 0.5 else None
        if self.draw.random() < 0.5:
            self.balance(account, token)
        else:
            self.scan(self.draw.choice(["links", "entries"]), account, token, self.draw.choice([5, 10, 30, 100]))

    def headers(self, account, token):
        return self.authorized(account) | ({"Consistency-Token": token} if token else {})

    def balance(self, account, token):
        return self.query("credits", "/v1/credits", headers=self.headers(account, token), account=account, token=token)

    def scan(self, collection, account, token, limit):
        """Reads a list to its end; False if a page was refused too often, or if there are too many pages."""
        path = {"links": "/v1/links", "entries": "/v1/credits/entries"}[collection]
        scan, cursor = self.world.unique(), None
        for page in range(SCAN_PAGES_MAX):
            address = f"{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else "")
            for _ in range(ATTEMPTS_MAX):
                operation = self.query("list", address, headers=self.headers(account, token), account=account,
                                       token=token, scan=scan, page=page, collection=collection)
                if operation["status"] not in (*UNKNOWN, 503):
                    break
                time.sleep(0.3)
            if operation["status"] != 200:
                return False
            cursor = json.loads(operation["body"])["next_cursor"]
            if cursor is None:
                return True
        return False
