"""State that the clients of a run share."""

import json
import threading

# Links that are changed and read again and again; few, so that clients contend for them.
HOT_LINKS_MAX = 12
FIRST_ETAG = '"1"'


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
