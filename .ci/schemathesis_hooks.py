"""Data that a schema can't describe: cursors and tokens of the service, and public addresses."""

import itertools
import json
import os
import pathlib
import re
import sys
import time
import urllib.error
import urllib.request
import uuid

import schemathesis
from hypothesis import strategies as st

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from schemathesis_checks import stands_alone  # noqa: E402

API_URL = os.environ["API_URL"]
SHORT_URL = os.environ["SHORT_URL"]
API_KEY = os.environ["API_KEY"]

# Projectors that have just started distribute their partitions first.
CAUGHT_UP_WITHIN_S = 60

# Placeholder for a cursor of the list that the test case requests.
CURSOR = "a-cursor-of-this-list"


key_numbers = itertools.count(1)


def fresh_key():
    return str(uuid.UUID(int=next(key_numbers)))


def call(path, body=None, **headers):
    """Sends a request; retries after Retry-After while the read tables lag, as the API documentation asks clients to."""
    data = None if body is None else json.dumps(body).encode()
    headers |= {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(API_URL + path, data, headers)
    deadline = time.monotonic() + CAUGHT_UP_WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.headers, json.load(answer)
        except urllib.error.HTTPError as refused:
            problem = refused.read().decode()
            behind = refused.code == 503 and json.loads(problem)["code"] == "read_model_behind"
            if not behind or time.monotonic() > deadline:
                raise RuntimeError(f"{path}: {problem}") from refused
            time.sleep(int(refused.headers["Retry-After"]))


def create():
    """Creates a link; returns its id, and the consistency token for lists."""
    headers, link = call(
        "/v1/links", {"destination_url": "https://example.com/"}, **{"Idempotency-Key": fresh_key()}
    )
    return link["id"], headers["Consistency-Token"]


def cursor_of(path):
    _, page = call(f"{path}?limit=1", **{"Consistency-Token": TOKEN})
    return page["next_cursor"]


create()
_, TOKEN = create()
latest_token = TOKEN
CURSORS = {path: cursor_of(path) for path in ("/v1/links", "/v1/credits/entries")}
FEED_CURSOR = cursor_of("/v1/events")
FILTERS = ("slug", "destination_url")
FILTERS_OF_CURSOR = {cursor: {} for cursor in CURSORS.values()}

label = st.from_regex(r"\A[a-z_]([a-z0-9_]{0,10}[a-z0-9])?\Z")
host = st.builds(
    lambda labels, last: ".".join([*labels, last]),
    st.lists(label, min_size=1, max_size=3), st.sampled_from(["com", "org", "example"]),
)
port = st.sampled_from(["", ":80", ":443", ":1024", ":65535"])
# Characters that a URI may have behind its host; `#` is added separately, at most once.
part = st.sampled_from([*"abcXYZ019-._~!$&'()*+,;=:@/?", "%20", "%C3%A4", "%0a", ".."])
rest = st.builds(
    lambda mark, parts: mark and mark + "".join(parts),
    st.sampled_from(["", "/", "?", "#"]), st.lists(part, max_size=40),
)
scheme = st.sampled_from(["http", "https", "HTTPS"])
destination = st.builds(lambda *parts: "{}://{}{}{}".format(*parts), scheme, host, port, rest)

schemathesis.openapi.format("url", destination)
schemathesis.openapi.format("webhook-url", st.builds("https://{}/{}".format, host, label))
schemathesis.openapi.format("cursor", st.just(CURSOR))
schemathesis.openapi.format("tag", st.from_regex(r"\A[\u00e0-\u00f6a-z0-9\u0430-\u044f][a-zA-Z0-9\u0430-\u044f ._:+#&/'-]{0,40}\Z"))
# Begin and end of a range, and time zones; a begin after its end is refused.
schemathesis.openapi.format(
    "instant-or-date", st.sampled_from(["2026-11-01", "2026-11-20", "2026-11-20T09:00:00Z", "2026-11-20T11:00:00.5+02:00"])
)
schemathesis.openapi.format("feed-start", st.sampled_from(["beginning", "now", "2026-11-20", "2026-11-20T09:00:00Z"]))
schemathesis.openapi.format("event-types", st.sampled_from(["LinkCreated", "LinkDeleted,CreditsCharged", "ApiKeyIssued"]))
schemathesis.openapi.format("time-zone", st.sampled_from(["UTC", "Europe/Berlin", "america/new_york", "Asia/Kathmandu"]))
schemathesis.openapi.format("consistency-token", st.just(TOKEN))
schemathesis.openapi.format("entity-tags", st.sampled_from(["*", '"1"', '"2", "1"', 'W/"1"']))


def is_uuid(text):
    try:
        return str(uuid.UUID(text)) == text.lower()
    except (ValueError, TypeError, AttributeError):
        return False


LINK_ID = re.compile("lnk_[0-7][0-9a-hjkmnp-tv-z]{25}")
WEBHOOK_ID = re.compile("whe_[0-7][0-9a-hjkmnp-tv-z]{25}")
DELIVERY_ID = re.compile("dlv_[0-7][0-9a-hjkmnp-tv-z]{25}")
turns = itertools.count()


def delete_webhooks():
    """Deletes all webhooks: an account has ten at most."""
    for webhook in call("/v1/webhooks")[1]["items"]:
        request = urllib.request.Request(f"{API_URL}/v1/webhooks/{webhook['id']}", method="DELETE")
        request.add_header("Authorization", f"Bearer {API_KEY}")
        urllib.request.urlopen(request).close()


def new_webhook():
    delete_webhooks()
    return call("/v1/webhooks", {"url": "https://shop.example.com/hooks"})[1]["id"]


def keep_rules_of_webhooks(case):
    """Names a webhook that exists, and keeps the rules that the schemas of its requests cannot describe."""
    ids, body = case.path_parameters or {}, case.body if isinstance(case.body, dict) else {}
    if case.operation.path == "/v1/webhooks" and case.method == "POST" and stands_alone(case):
        delete_webhooks()
    if WEBHOOK_ID.fullmatch(str(ids.get("webhook_id"))) and stands_alone(case) and next(turns) % 2:
        ids["webhook_id"] = new_webhook()
        if DELIVERY_ID.fullmatch(str(ids.get("delivery_id"))):
            ids["delivery_id"] = call(f"/v1/webhooks/{ids['webhook_id']}/test", {})[1]["id"]
    if case.operation.path.endswith("/replay") and is_valid(case):
        body.clear()
        body["from"] = "2026-11-20T09:00:00Z"
    # An integer for JSON Schema, but no whole number for the service.
    if isinstance(body.get("overlap_hours"), float) and is_valid(case):
        body["overlap_hours"] = int(body["overlap_hours"])
    if "description" in body and isinstance(body["description"], str) and is_valid(case):
        body["description"] = "".join(filter(str.isprintable, body["description"])).strip() or "x"


def is_valid(case):
    """Returns True for a request that the document allows."""
    return case.meta is not None and case.meta.generation.mode == schemathesis.GenerationMode.POSITIVE


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path.startswith("/v1/webhooks"):
        keep_rules_of_webhooks(case)
    query, headers = case.query or {}, case.headers or {}
    if query.get("cursor") == CURSOR:
        if case.operation.path in CURSORS:
            query["cursor"] = CURSORS[case.operation.path]
        else:
            # A cursor of a history belongs to one link.
            del query["cursor"]
    if case.operation.path == "/v1/events":
        # Instead of a start and of types: a cursor belongs to a list without a filter.
        if query.get("after") == CURSOR:
            query["after"] = FEED_CURSOR
            query.pop("from", None)
            query.pop("types", None)
        # A test case with a wait would take as long.
        query.pop("wait", None)
    # A cursor is only valid with the filters of the list that returned it.
    if "cursor" in query and query["cursor"] in FILTERS_OF_CURSOR:
        for name in FILTERS:
            query.pop(name, None)
        query.update(FILTERS_OF_CURSOR[query["cursor"]])
    # No link has a generated id: half of the independent test cases get the id of a new link.
    ids = case.path_parameters or {}
    if LINK_ID.fullmatch(str(ids.get("id"))) and stands_alone(case) and next(turns) % 2:
        ids["id"], _ = create()
    # A sequence of requests asks for the link as it is: a new link did not exist at an earlier instant.
    if case.operation.path == "/v1/links/{id}" and not stands_alone(case):
        query.pop("at", None)
    # An idempotency key belongs to one body, so each test case gets a new key.
    # The phase "coverage" takes "0" for a valid value of an optional one.
    if is_uuid(headers.get("Idempotency-Key")) or headers.get("Idempotency-Key") == "0":
        headers["Idempotency-Key"] = fresh_key()
    # Schemathesis reuses addresses from responses, but no link may have a short link as its destination.
    for members in (query, case.body if isinstance(case.body, dict) else {}):
        if str(members.get("destination_url", "")).startswith(SHORT_URL):
            members["destination_url"] = "https://example.com/"
    # A read after a write needs the consistency token of the write.
    if case.method == "GET" and headers.get("Consistency-Token", TOKEN) == TOKEN:
        case.headers["Consistency-Token"] = latest_token


@schemathesis.hook
def after_call(context, case, response):
    global latest_token
    latest_token = response.headers.get("consistency-token", [latest_token])[0]
    if case.operation.path in CURSORS and case.method == "GET" and response.status_code == 200:
        query = case.query or {}
        filters = {name: query[name] for name in FILTERS if name in query}
        FILTERS_OF_CURSOR[response.json()["next_cursor"]] = filters
