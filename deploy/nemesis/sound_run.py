"""Evidence of a small run without a fault, for the tests of the judge."""

import copy
import json
import uuid

from judge.evidence import Evidence, text_id

ACCOUNT, FIRST, SECOND = (str(uuid.UUID(int=number)) for number in (1, 2, 3))
A, L1, L2, KEY = text_id("acc", ACCOUNT), text_id("lnk", FIRST), text_id("lnk", SECOND), text_id("key", FIRST)


def row(position, kind, stream, version, payload, key=None):
    return {"shard": 0, "position": position, "stream": stream, "version": version, "account": ACCOUNT, "key": key,
            "event": str(uuid.UUID(int=100 + position)), "type": kind, "payload": json.dumps(payload)}


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
    an operator; the second is created and deleted, and frees its external id for the first."""

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
        self.operations, self.clock = [], 0
        self.operate("grant", account=A, amount=10, reason="nemesis-1")
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
        return {"log": log, "heads": [{"shard": 0, "head": len(log)}], "ready_after_s": 1, "quiet_after_s": 1,
                "accounts": [{"account": ACCOUNT, "balance": 8, "status": "active"}]}

    def stream(self):
        events = [Evidence.event(it) for it in self.log]
        return [{"partition": 0, "offset": it["position"], "key": it["account"], "value": it["raw"], "headers": {
            "ce_id": it["id"], "ce_subject": it["subject"], "ce_type": f"linkledger.{it['type']}.v1",
            "ce_sequence": f"{it['position']:020}", "ce_streamversion": str(it["version"]),
            **({"ce_linkstate": json.dumps(STATES[it["position"]])} if it["position"] in STATES else {})}} for it in events]
