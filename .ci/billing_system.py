"""A billing system, for .ci/billing: it sends each request to any command-api until the request is answered. All answers
to an idempotency key must have the same bytes, but for the secret of an API key."""

import collections
import http.client
import itertools
import json
import random
import re
import urllib.parse
import uuid

from stack import REQUEST_TIMEOUT_S, eventually

ACCOUNTS, LINKS = "/admin/v1/accounts", 2


class BillingSystem:
    def __init__(self, stack, admin_key):
        self.stack, self.admin_key, self.answers, self.counts = stack, admin_key, {}, collections.Counter()

    def send(self, method, path, body=None, once="", key=None):
        text = eventually(f"{method} {path} is answered", lambda: self.attempt(method, path, body, once, key))
        without_secret = re.sub(rb',"secret":"\w+"', b"", text)
        _, first = self.answers.setdefault((path, once, key), (body, without_secret)) if once else (body, without_secret)
        assert without_secret == first, f"{path} was answered {text}, and before that {first}"
        return json.loads(text)

    def attempt(self, method, path, body, once, key):
        service = random.choice(self.stack.queries if method == "GET" else self.stack.commands)
        port = service.api_port if key else self.stack.admin_ports[service.name]
        headers = {"Authorization": f"Bearer {key or self.admin_key}", "Idempotency-Key": once, "Content-Type": "application/json"}
        connection = service.connection(port, REQUEST_TIMEOUT_S)
        try:
            connection.request(method, path, body and json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return self.counts.update(["unanswered"])
        finally:
            connection.close()
        self.counts.update([str(answer.status), *(["replayed"] if "Idempotent-Replayed" in answer.headers else [])])
        assert answer.status in (200, 201, 503, 504), f"{method} {path} was answered {answer.status}: {text}"
        return text if answer.status < 300 else None

    def pages(self, path, after=""):
        page = self.send("GET", f"{path}?limit=100{after}")
        return page["items"] + (self.pages(path, f"&cursor={page['next_cursor']}") if page["has_more"] else [])

    def sign_up(self, customer):
        path = f"{ACCOUNTS}/by-external-id/{urllib.parse.quote(customer, safe='')}"
        return f"{ACCOUNTS}/{self.send('PUT', path, {'name': f'Customer {random.randrange(10)}'})['id']}"

    def pay(self, customer, invoice, amount):
        grant = {"amount": amount, "reason": "invoice paid", "reference": invoice}
        self.send("POST", f"{self.sign_up(customer)}/grants", grant, once=invoice)

    def serve(self, customer, *first_invoice):
        """Lets a customer make links, gives the charge of one back, and suspends the account for a moment."""
        self.pay(customer, *first_invoice)
        account, scopes = self.sign_up(customer), {"scopes": ["link:links.write"]}
        keys = (self.send("POST", f"{account}/keys", scopes, once=f"key {number}") for number in itertools.count())
        secret = next(key["secret"] for key in keys if "secret" in key)  # the first answer to a request can be lost
        for number in range(LINKS):
            once = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{customer}/{number}"))
            self.send("POST", "/v1/links", {"destination_url": f"https://example.com/{number}"}, once, secret)
        charge = next(entry["id"] for entry in self.pages(f"{account}/entries") if entry["type"] == "charge")
        self.send("POST", f"{account}/refunds", {"entry": charge, "reason": "never worked"}, once=f"refund of {charge}")
        for command in ("suspend", "resume"):
            self.send("POST", f"{account}/{command}", {"reason": "payment disputed"}, once="dispute 7")
