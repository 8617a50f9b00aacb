"""Data that docs/admin-openapi.json can't describe: accounts, keys, links and entries that exist, their names, and texts
without invisible characters."""

import itertools
import json
import os
import pathlib
import re
import sys
import urllib.request
import uuid

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from schemathesis_checks import stands_alone  # noqa: E402

ADMIN, API_URL = os.environ["ADMIN_URL"] + "/admin/v1", os.environ["API_URL"]
ADMIN_KEY = os.environ["ADMIN_KEY"]
# Beginning of the idempotency keys of this run: a stack can be tested more than once.
RUN = uuid.uuid4().hex

# Placeholder for a cursor of the list that the test case requests.
CURSOR = "a-cursor-of-this-list"
ID = re.compile("(acc|key|lnk|whe|dlv)_[0-7][0-9a-hjkmnp-tv-z]{25}")
IDEMPOTENCY_KEY = re.compile("[ -~]{1,128}")
TEXTS = {"name", "reason", "description", "reference"}

numbers, turns = itertools.count(1), itertools.count()


def call(url, body=None, key=ADMIN_KEY, once=None):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    headers["Idempotency-Key"] = once or f"{RUN} {next(numbers)}"
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def new_account():
    return call(f"{ADMIN}/accounts", {"name": "Example Ltd"})["id"]


def new_grant(account):
    return call(f"{ADMIN}/accounts/{account}/grants", {"amount": 1_000, "reason": "invoice paid"})["id"]


def new_key():
    return call(f"{ADMIN}/accounts/{new_account()}/keys", {"scopes": ["link:links.read"]})["id"]


def new_charge():
    """Returns a new account, its link and the charge for the link. No other test case can have suspended the account."""
    account = new_account()
    new_grant(account)
    secret = call(f"{ADMIN}/accounts/{account}/keys", {"scopes": ["link:links.write"]})["secret"]
    link = call(f"{API_URL}/v1/links", {"destination_url": "https://example.com/"}, secret, once=str(uuid.uuid4()))
    entries = call(f"{ADMIN}/accounts/{account}/entries")["items"]
    return account, link["id"], next(entry["id"] for entry in entries if entry["type"] == "charge")


def new_link():
    return new_charge()[1]


def delete_webhooks():
    """Deletes all webhooks of operators, of which there are ten at most."""
    request = urllib.request.Request(f"{ADMIN}/webhooks", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
    with urllib.request.urlopen(request) as answer:
        webhooks = json.load(answer)["items"]
    for webhook in webhooks:
        request = urllib.request.Request(f"{ADMIN}/webhooks/{webhook['id']}", method="DELETE")
        request.add_header("Authorization", f"Bearer {ADMIN_KEY}")
        urllib.request.urlopen(request).close()


def new_webhook():
    delete_webhooks()
    return call(f"{ADMIN}/webhooks", {"url": "https://shop.example.com/hooks"})["id"]


ACCOUNT, LINK, _ = new_charge()
# Path and filters of the list that has returned a cursor.
LISTS = {}
MADE = {"account_id": new_account, "key_id": new_key, "link_id": new_link, "webhook_id": new_webhook}
FILTERS = {
    "external_id": itertools.cycle(["customers/4711", "a"]),
    "state": itertools.cycle(["active", "suspended"]),
    "link_id": itertools.cycle([LINK]),
    "type": itertools.cycle(["CreditsGranted", "AccountCreated", "LinkCreated"]),
}
NAMES = itertools.cycle([{"id": LINK}, {"slug": "Spring-26"}, {"external_id": "a", "account": ACCOUNT}])

schemathesis.openapi.format("cursor", st.just(CURSOR))
schemathesis.openapi.format("webhook-url", st.from_regex(r"\Ahttps://[a-z]{1,9}[.]example/[a-z]{0,9}\Z"))


def printable(text):
    """Returns the text without the characters that no text may have: invisible ones, and spaces at its ends."""
    return "".join(filter(str.isprintable, text)).strip() or "x"


def without_point(value):
    """Returns 7 for 7.0, also in a list: an integer for JSON Schema, but no whole number for the service."""
    if isinstance(value, list):
        return [without_point(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_valid(case):
    """Returns True for a request that the document allows, as it is now."""
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


def name_existing(case):
    """Names something that exists, so that the request has an effect."""
    ids, body, path = case.path_parameters or {}, case.body, case.operation.path
    for name in MADE.keys() & ids.keys():
        if not is_valid(case) and not ID.fullmatch(str(ids[name])):
            return
        ids[name] = MADE[name]()
    if path == "/admin/v1/webhooks" and case.method == "POST":
        delete_webhooks()
    if "delivery_id" in ids and ID.fullmatch(str(ids["delivery_id"])):
        ids["delivery_id"] = call(f"{ADMIN}/webhooks/{ids['webhook_id']}/test", {"test": True})["id"]
    if path.endswith("/adjustments"):
        new_grant(ids["account_id"])
    if path.endswith("/refunds") and is_valid(case):
        ids["account_id"], _, body["entry"] = new_charge()
    if path.endswith("/revocations") and is_valid(case):
        body["grant"] = new_grant(ids["account_id"])


def keep_rules(case):
    """Keeps the rules for the values of a valid request."""
    if case.operation.path == "/admin/v1/links":
        case.query = dict(next(NAMES))
        return
    query, body = case.query or {}, case.body if isinstance(case.body, dict) else {}
    if not case.operation.path.endswith("/deliveries"):
        for name in FILTERS.keys() & query.keys():
            query[name] = next(FILTERS[name])
    for name in TEXTS & body.keys():
        if isinstance(body[name], str):
            body[name] = printable(body[name])
    for name in body:
        body[name] = without_point(body[name])
    # The account of the operators' webhooks, which lists show.
    for members in (body, case.path_parameters or {}):
        if members.get("external_id") == "operators":
            members["external_id"] = "customer-4711"
    if case.operation.path.endswith("/replay"):
        case.body = {"from": "2026-11-20T09:00:00Z"}
    if "return_url" in body:
        body["return_url"] = "https://shop.example.com/account"


def use_cursor(case):
    """Replaces the placeholder by a cursor of the list, if any. A cursor belongs to one list and its filters."""
    query, path = case.query or {}, case.formatted_path
    name = next((name for name in ("cursor", "after") if name in query), None)
    if name is None:
        return
    cursor = query.pop(name)
    if cursor == CURSOR:
        cursor = next((cursor for cursor, (of_list, _) in LISTS.items() if of_list == path), None)
    of_list, filters = LISTS.get(cursor, (None, {}))
    if of_list == path:
        limit = {name: query[name] for name in query.keys() & {"limit"}}
        case.query = {**filters, **limit, name: cursor}


@schemathesis.hook
def before_call(context, case, kwargs):
    # An idempotency key belongs to one body, so each test case gets a new key.
    headers = case.headers or {}
    key = str(headers.get("Idempotency-Key", ""))
    if IDEMPOTENCY_KEY.fullmatch(key):
        headers["Idempotency-Key"] = f"{RUN} {next(numbers)} {key[:80]}".strip()
    # No account has a generated id: half of the independent test cases get the id of a new one.
    if stands_alone(case) and next(turns) % 2:
        name_existing(case)
    if is_valid(case):
        keep_rules(case)
        use_cursor(case)


@schemathesis.hook
def after_call(context, case, response):
    if case.method == "GET" and response.status_code == 200 and (cursor := response.json().get("next_cursor")):
        query = case.query or {}
        LISTS[cursor] = case.formatted_path, {name: query[name] for name in query.keys() - {"cursor", "after", "limit", "latest"}}
