"""Evidence of a small run without a fault, for the tests of the judge."""

import collections
import copy
import datetime
import json
import uuid

from judge.evidence import Evidence, text_id
from judge.subscriber_rules import MESSAGE_TYPES, TO_BE_NAMED, id_of_list

ACCOUNT, FIRST, SECOND, OTHER, OPERATORS = (str(uuid.UUID(int=number)) for number in (1, 2, 3, 10, 11))
A, L1, L2, KEY = text_id("acc", ACCOUNT), text_id("lnk", FIRST), text_id("lnk", SECOND), text_id("key", FIRST)
# Another account, in shard 1, and the webhooks of both accounts and of operators, whose own account is in shard 2.
B, OF_A, OF_B, OF_OPERATORS = text_id("acc", OTHER), text_id("whe", ACCOUNT), text_id("whe", FIRST), text_id("whe", SECOND)
RECORDED_AT = "1970-01-01T00:00:01.000Z"
AT_REST = {"enabled": True, "ill": False, "waiting": 0, "failed": 0, "behind": 0}


def row(position, kind, stream, version, payload, key=None, shard=0, account=ACCOUNT):
    return {"shard": shard, "position": position, "stream": stream, "version": version, "account": account, "key": key,
            "event": str(uuid.UUID(int=100 + position + 1000 * shard)), "type": kind, "payload": json.dumps(payload),
            "recorded_s": EXPIRED_S + 0.5}


def own_row(shard, account, position, kind, payload):
    """Returns a row of an account that has no links."""
    return row(position, kind, account, position, payload, shard=shard, account=account)


def instant_of(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def list_of(items):
    """Returns the body of a request with messages in order, of which the ids and bodies are given."""
    listed = ",".join(f'{{"id":"{message}",{body[1:]}' for message, body in items)
    return f'{{"type":"events","timestamp":"{RECORDED_AT}","data":{{"items":[{listed}]}}}}'


def address(name):
    return f"https://example.com/{name}"


# Details of the first link from its fourth version on. The clock of the run begins in 1970, and the link expires after 900 s.
INSTANT, EXPIRED_S = "1970-01-01T00:15:00.000Z", 1000
OVER = {"external_id": "x1", "expires_at": INSTANT, "expired_url": address("over")}
CHANGES = {name: {"to": value} for name, value in OVER.items()}
OF_SECOND = {"external_id": "x1", "expires_at": INSTANT}
# States that the records tell, by the position of their events.
STATES = {
    4: {"destination_url": address("b")},
    7: {"destination_url": address("c")},
    8: {"destination_url": address("x"), "details": OF_SECOND, "deleted": True},
    9: {"destination_url": address("c"), "details": OVER},
    10: {"destination_url": address("c"), "details": OVER, "disabled_by_owner": True},
    11: {"destination_url": address("c"), "details": OVER, "disabled_by_owner": True, "disabled_by_operator": True},
    12: {"destination_url": address("c"), "details": OVER, "disabled_by_owner": True},
    13: {"destination_url": address("c"), "details": OVER},
}
PROBLEM = {"Content-Type": "application/problem+json"}


class Run:
    """Two links: the first is created, repeated, changed and read, expires, and is disabled and enabled by its owner and
    an operator; the second is created and deleted, and frees its external id for the first. Two readers follow the feed of
    the account, a webhook its clicks by minute, a webhook in order the credits of another account, which rotates its secret,
    and a webhook of operators follows everything."""

    def __init__(self):
        self.log = [
            row(1, "CreditsGranted", ACCOUNT, 1, {"amount": 10, "balance_after": 10, "reason": "nemesis-1"}, "grant:nemesis-1"),
            row(2, "LinkCreated", FIRST, 1, {"slug": "one", "destination_url": address("a")}, "create:k1"),
            row(3, "CreditsCharged", ACCOUNT, 2, {"amount": 1, "balance_after": 9, "link_id": L1, "key_id": KEY, "reason": "link_created"}),
            row(4, "LinkDestinationChanged", FIRST, 2, {"destination_url": address("b"), "previous_destination_url": address("a")}),
            row(5, "LinkCreated", SECOND, 1, {"slug": "two", "destination_url": address("x"), **OF_SECOND}, "create:k2"),
            row(6, "CreditsCharged", ACCOUNT, 3, {"amount": 1, "balance_after": 8, "link_id": L2, "key_id": KEY, "reason": "link_created"}),
            row(7, "LinkDestinationChanged", FIRST, 3, {"destination_url": address("c"), "previous_destination_url": address("b")}),
            row(8, "LinkDeleted", SECOND, 2, {"slug": "two"}),
            row(9, "LinkDetailsChanged", FIRST, 4, {"changes": CHANGES}),
            row(10, "LinkDisabled", FIRST, 5, {"by": "owner", "disabled_by": "owner", "reason": "by the owner"}),
            row(11, "LinkDisabled", FIRST, 6, {"by": "operator", "disabled_by": "operator", "reason": "nemesis-2"}),
            row(12, "LinkEnabled", FIRST, 7, {"by": "operator", "disabled_by": "owner", "reason": "nemesis-3"}),
            row(13, "LinkEnabled", FIRST, 8, {"by": "owner", "reason": "by the owner"}),
        ]
        self.log += [
            own_row(1, OTHER, 1, "AccountCreated", {"name": "B"}),
            own_row(1, OTHER, 2, "WebhookCreated", {"webhook_id": OF_B, "url": "http://127.0.0.1:1/b", "types": [], "in_order": True}),
            own_row(1, OTHER, 3, "CreditsGranted", {"amount": 5, "balance_after": 5, "reason": "nemesis-4", "reference": "r-1"}),
            own_row(1, OTHER, 4, "CreditsAdjusted", {"amount": -1, "balance_after": 4, "reason": "nemesis-5"}),
            own_row(2, OPERATORS, 1, "AccountCreated", {"name": "Operators"}),
            own_row(2, OPERATORS, 2, "WebhookCreated", {"webhook_id": OF_OPERATORS, "url": "http://127.0.0.1:1/o", "in_order": False,
                                                        "all_accounts": True}),
        ]
        self.operations, self.clock = [], 0
        self.operate("grant", account=A, amount=10, reason="nemesis-1")
        sent = {"url": "http://127.0.0.1:1/a", "types": ["link.clicks"], "in_order": False}
        self.webhook_of_a = self.add("webhook", 201, client="receiver-3", account=A, sent=sent, body={"id": OF_A})
        self.rotation = self.add("webhook-secret", 200, client="receiver-1", account=B, webhook=OF_B, body={})
        self.first = self.create("k1", "a", "one", L1)
        self.replay = self.create("k1", "a", "one", L1, {"Idempotent-Replayed": "true"})
        self.redirect_a = self.add("redirect", 302, link=L1, headers={"Location": address("a")}, process=7)
        self.change_b = self.change(L1, "b", 2, '"1"')
        self.read_b = self.get(L1, 2, "b", token="t-b")
        self.redirect_b = self.add("redirect", 302, link=L1, headers={"Location": address("b")}, process=7)
        self.second = self.create("k2", "x", "two", L2, **OF_SECOND)
        self.taken = self.add("create", 409, account=A, key="k4", sent={"destination_url": address("t"), "external_id": "x1"},
                              headers=PROBLEM, body={"code": "external_id_taken"})
        self.batch = self.add("batch", 207, account=A, mode="partial", process=7, headers={"Consistency-Token": "t-x"},
                              items=[{"key": "k2", "sent": self.second["sent"]}], body={
                                  "items": [{"status": 201, "replayed": True, "link": json.loads(self.second["body"])}],
                                  "credits_charged": 0})
        self.dry_run = self.add("batch", 200, account=A, mode="dry_run", process=7,
                                items=[{"key": "k3", "sent": {"destination_url": address("y")}}],
                                body={"items": [{"status": 201, "replayed": False, "link": {}}], "credits_charged": 0})
        self.balance = self.add("credits", 200, account=A, token="t-x", body={"balance": 8}, client="reader")
        self.listed = self.list("links", "t-x", [(L2, "x", OF_SECOND), (L1, "b", {})], 1, "lister")
        self.found = self.list("links", "t-x", [(L2, "x", OF_SECOND)], 4, "lister", external_id="x1")
        self.change_c = self.change(L1, "c", 3, None)
        self.refused = self.add("patch", 412, link=L1, account=A, sent={"destination_url": address("d")}, if_match='"2"',
                                headers={"ETag": '"3"', **PROBLEM}, body={"code": "etag_mismatch"})
        self.deleted = self.add("delete", 204, link=L2, account=A, if_match=None)
        self.gone = self.add("redirect", 410, link=L2, headers=PROBLEM, body={"code": "short_link_gone"}, process=7)
        self.expire_and_disable()
        self.operate("grant", account=B, amount=5, reason="nemesis-4")
        self.operate("adjust", account=B, amount=-1, reason="nemesis-5")
        self.observe()
        self.read_feeds()
        self.receive_messages()
        self.operate("last-verify")
        self.operate("last-verify")
        self.last = self.get(L1, 8, "c", is_last=True, details=OVER)
        self.last_balance = self.add("credits", 200, account=A, token=None, body={"balance": 8}, client="auditor-of-lists")
        self.last_list = self.list("links", None, [(L1, "c", OVER)], 2, "auditor-of-lists")
        self.ledger = self.list("entries", None, [(8, L2), (9, L1), (10, None)], 3, "auditor-of-lists")
        self.clicks = self.add("clicks", 200, link=L1, body={"totals": {"clicks": 3, "bots": 0}})

    def expire_and_disable(self):
        self.details = self.patch(L1, 4, OVER, "c", OVER)
        self.redirect_c = self.add("redirect", 302, link=L1, headers={"Location": address("c")}, process=7)
        self.clock = EXPIRED_S
        self.over = self.add("redirect", 302, link=L1, headers={"Location": address("over")}, process=7)
        self.late = self.add("create", 422, account=A, key="k5", headers=PROBLEM,
                             sent={"destination_url": address("l"), "expires_at": INSTANT},
                             body={"code": "validation_failed", "errors": [{"code": "expires_at_in_the_past"}]})
        self.expired = self.list("links", None, [(L1, "c", OVER)], 5, "auditor-of-lists", state="expired")
        self.list("links", None, [(L1, "c", OVER)], 6, "lister", state="expired")
        disabled = OVER | {"disabled": True, "disabled_by": "owner"}
        self.disabled = self.patch(L1, 5, {"disabled": True}, "c", disabled)
        self.stopped = self.add("redirect", 410, link=L1, headers=PROBLEM, body={"code": "short_link_gone"}, process=7)
        self.operate("disable", link=L1, reason="nemesis-2", out='{"changed": true}')
        self.held = self.add("patch", 403, link=L1, account=A, sent={"disabled": False}, if_match=None, headers=PROBLEM,
                             body={"code": "link_disabled_by_operator"})
        self.operate("enable", link=L1, reason="nemesis-3", out='{"changed": true}')
        self.enabled = self.patch(L1, 8, {"disabled": False}, "c", OVER)

    def observe(self):
        """Appends what no request causes, the webhook that wants clicks by minute, and the rotation of the secret."""
        clicked_at, minute = instant_of(self.redirect_a["start"] + 1), instant_of(0)
        clicks = [{"minute": minute, "links": [{"link_id": L1, "clicks": number, "bots": 0}]} for number in (2, 1)]
        self.log += [
            row(14, "WebhookCreated", ACCOUNT, 4, {"webhook_id": OF_A, "url": "http://127.0.0.1:1/a", "types": ["link.clicks"],
                                                   "in_order": False}),
            row(15, "LinkExpired", ACCOUNT, 5, {"account_id": A, "link_id": L1, "expires_at": INSTANT}),
            row(16, "LinkFirstClicked", ACCOUNT, 6, {"account_id": A, "link_id": L1, "clicked_at": clicked_at}),
            row(17, "LinksClicked", ACCOUNT, 7, {"account_id": A, **clicks[0]}),
            row(18, "LinksClicked", ACCOUNT, 8, {"account_id": A, **clicks[1]}),
            own_row(1, OTHER, 5, "WebhookSecretRotated", {"account_id": B, "webhook_id": OF_B}),
        ]

    def read_feeds(self):
        events = [Evidence.event(it) for it in self.log if it["account"] == ACCOUNT]
        items = [{"id": it["id"], "type": it["type"], "sequence": it["position"], "data": {
            name: value for name, value in it["payload"].items() if name not in ("reason", "reference")}} for it in events]
        self.pages = [self.page("feedreader-1", [], part) for part in (items[:7], items[7:], [])]
        self.deletions = self.page("feedreader-2", ["LinkDeleted"], [it for it in items if it["type"] == "LinkDeleted"])

    def page(self, reader, types, items):
        return self.add("feed", 200, client=reader, account=A, types=types, body={"items": items, "has_more": False})

    def receive_messages(self):
        """The receiver in order fails once, then gets one message after the other, and refuses the one about the adjustment
        once; the receiver of operators fails once, and is asked for a test."""
        for when, heads in (("before", (0, 0, 0)), ("after", (0, 2, 2))):
            heads = [{"shard": shard, "head": head} for shard, head in enumerate(heads)]
            self.add("webhook-heads", None, client="receiver-2", when=when, heads=heads)
        sent = {"url": "http://127.0.0.1:1/b", "in_order": True}
        self.webhook = self.add("webhook", 201, client="receiver-1", account=B, sent=sent, body={"id": OF_B})
        sent = {"url": "http://127.0.0.1:1/o", "in_order": False}
        self.add("webhook", 201, client="receiver-2", account=None, sent=sent, body={"id": OF_OPERATORS})
        grant, adjustment = (Evidence.event(it) for it in self.log[15:17])
        self.items = [(grant["id"], self.body("credits.granted", {"amount": 5, "balance_after": 5, "sequence": 3})),
                      (adjustment["id"], self.body("credits.adjusted", {"amount": -1, "balance_after": 4, "sequence": 4}))]
        self.both = self.messages("receiver-1", 1, 500, *self.items)
        self.granted = self.messages("receiver-1", 2, 200, self.items[0])
        self.adjusted = [self.messages("receiver-1", 3, 400, self.items[1]), self.request("receiver-1", 4, 204, *self.items[1])]
        for nth, event in enumerate(map(Evidence.event, [it for it in self.log if it["type"] == "LinksClicked"]), 1):
            self.message("receiver-3", nth, 200, event["id"], "link.clicks", {**event["payload"], "sequence": event["position"]})
        self.of_operators = {}
        events = {(it["shard"], it["position"]): it for it in map(Evidence.event, self.log)}
        for (shard, position), event in events.items():
            data = {**event["payload"], "sequence": position}
            if event["type"] == "LinkCreated":
                data["charge"] = {**events[shard, position + 1]["payload"], "sequence": position + 1}
            kind = MESSAGE_TYPES.get(event["type"])
            if kind and kind not in TO_BE_NAMED:
                for answer in (500, 200) if event["type"] == "LinkDeleted" else (200,):
                    message = self.message("receiver-2", len(self.of_operators) + 1, answer, event["id"], kind, data)
                    self.of_operators[shard, position] = message
        self.test = self.add("webhook-test", 202, client="receiver-2", account=None, body={"state": "waiting"})
        self.message("receiver-2", 99, 200, "evt_test", "webhook.test", {})
        self.states = [self.add("webhook-state", 200, client=f"receiver-{number}", account=account, body={
            "enabled": True, "health": {"state": "healthy"}, "waiting": 0, "failed": 0}) for number, account in ((1, B), (2, None), (3, A))]

    def message(self, receiver, arrival, answer, message, kind, data):
        return self.request(receiver, arrival, answer, message, self.body(kind, data))

    def messages(self, receiver, arrival, answer, *items):
        return self.request(receiver, arrival, answer, id_of_list(items), list_of(items))

    def body(self, kind, data):
        return json.dumps({"type": kind, "timestamp": RECORDED_AT, "data": data})

    def request(self, receiver, arrival, answer, message, body):
        operation = self.add("message", None, client=receiver, arrival=arrival, answer=answer, message=message,
                             timestamp=str(self.clock + 9), is_signed=True, is_of_newest=True)
        operation["body"] = body
        return operation

    def add(self, op, status, headers=None, body=None, client="test", **facts):
        self.clock += 10
        headers = {"X-Request-Id": "r", "Content-Type": "application/json", **(headers or {})}
        if op in ("create", "patch", "delete") and status < 300:
            headers.setdefault("Consistency-Token", f"t-{self.clock}")
        operation = {"op": op, "client": client, "service": "one", "status": status, "headers": headers, **facts,
                     "body": json.dumps(body), "id": len(self.operations) + 1, "start": self.clock, "end": self.clock + 5}
        self.operations.append(operation)
        return operation

    def create(self, key, name, slug, link, headers=None, **details):
        return self.add("create", 201, account=A, key=key, sent={"destination_url": address(name), "slug": slug, **details},
                        headers={"ETag": '"1"', "Consistency-Token": f"t-{name}", **(headers or {})},
                        body={"id": link, "destination_url": address(name), **details})

    def change(self, link, name, version, if_match):
        return self.patch(link, version, {"destination_url": address(name)}, name, {}, if_match, {"Consistency-Token": f"t-{name}"})

    def patch(self, link, version, sent, name, details, if_match=None, headers=None):
        return self.add("patch", 200, link=link, account=A, sent=dict(sent), if_match=if_match,
                        headers={"ETag": f'"{version}"', **(headers or {})},
                        body={"id": link, "destination_url": address(name), **details})

    def get(self, link, version, name, token=None, details=None, **facts):
        return self.add("get", 200, link=link, account=A, token=token, headers={"ETag": f'"{version}"'},
                        body={"id": link, "destination_url": address(name), **(details or {})}, **facts)

    def list(self, collection, token, items, scan, client, **filters):
        if collection == "links":
            items = [{"id": link, "destination_url": address(name), **details} for link, name, details in items]
        else:
            items = [{"balance_after": balance, "link_id": link} for balance, link in items]
        return self.add("list", 200, account=A, token=token, collection=collection, scan=scan, page=0, client=client,
                        filters=filters, body={"items": items, "next_cursor": None})

    def operate(self, kind, **facts):
        self.add("operate", None, **{"kind": kind, "program": "p", "arguments": [], "exit": 0, "out": "", "error": "", **facts})

    def facts(self):
        log = copy.deepcopy(self.log)
        heads = collections.Counter(it["shard"] for it in log)
        return {"log": log, "heads": [{"shard": shard, "head": head} for shard, head in heads.items()],
                "ready_after_s": 1, "quiet_after_s": 1, "observed_until_s": EXPIRED_S,
                "webhooks": {webhook: dict(AT_REST) for webhook in (OF_A, OF_B, OF_OPERATORS)},
                "accounts": [{"account": account, "balance": balance, "status": "active"}
                             for account, balance in ((ACCOUNT, 8), (OTHER, 4), (OPERATORS, 0))]}

    def stream(self):
        events = [Evidence.event(it) for it in self.log]
        return [{"partition": it["shard"], "offset": it["position"], "key": it["account"], "value": it["raw"], "headers": {
            "ce_id": it["id"], "ce_subject": it["subject"], "ce_type": f"linkledger.{it['type']}.v1",
            "ce_sequence": f"{it['position']:020}", "ce_streamversion": str(it["version"]),
            **({"ce_linkstate": json.dumps(STATES[it["position"]])} if not it["shard"] and it["position"] in STATES else {})}}
            for it in events]
