"""Clients that read balances and whole lists."""

import json
import time
from urllib.parse import urlencode

from .client import ATTEMPTS_MAX, UNKNOWN, Client
from .details import STATES, any_external_id

SCAN_PAGES_MAX = 400


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
            filters = self.any_filters() if collection == "links" else {}
            self.scan(collection, account, token, self.draw.choice([5, 10, 30, 100]), filters)

    def any_filters(self):
        number = self.world.unique()
        return self.draw.choice([
            {}, {"tag": f"tag-{number % 7}"}, {"tag": f"all,tag-{number % 7}"}, {"state": self.draw.choice(STATES)},
            {"external_id": any_external_id(self.draw, number)}, {"tag": "all", "state": self.draw.choice(STATES)}])

    def headers(self, account, token):
        return self.authorized(account) | ({"Consistency-Token": token} if token else {})

    def balance(self, account, token, service=None):
        return self.query("credits", "/v1/credits", service, headers=self.headers(account, token), account=account, token=token)

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
