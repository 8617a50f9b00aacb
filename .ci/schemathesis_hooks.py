"""Data that a schema can't describe: what the service has handed out, and public addresses."""

import itertools
import json
import os
import urllib.request
import uuid

import schemathesis
from hypothesis import strategies as st

API_URL = os.environ["API_URL"]
SHORT_URL = os.environ["SHORT_URL"]
API_KEY = os.environ["API_KEY"]

# Stands for a cursor of the list that a case turns out to ask for.
CURSOR = "a-cursor-of-this-list"


def call(path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    headers |= {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(API_URL + path, data, headers)) as answer:
        return answer.headers, json.load(answer)


def create(n):
    body = {"destination_url": f"https://example.com/{n}"}
    headers, _ = call("/v1/links", body, **{"Idempotency-Key": str(uuid.UUID(int=n))})
    return headers["Consistency-Token"]


def cursor_of(path):
    _, page = call(f"{path}?limit=1", **{"Consistency-Token": TOKEN})
    return page["next_cursor"]


TOKEN = latest_token = [create(n) for n in range(3)][-1]
CURSORS = {path: cursor_of(path) for path in ("/v1/links", "/v1/credits/entries")}
FILTERS = ("slug", "destination_url")
FILTERS_OF_CURSOR = {cursor: {} for cursor in CURSORS.values()}
FRESH_KEYS = (uuid.UUID(int=n) for n in itertools.count(1_000_000))

label = st.from_regex(r"\A[a-z_]([a-z0-9_]{0,10}[a-z0-9])?\Z")
host = st.builds(
    lambda labels, last: ".".join([*labels, last]),
    st.lists(label, min_size=1, max_size=3), st.sampled_from(["com", "org", "example"]),
)
port = st.sampled_from(["", ":80", ":443", ":1024", ":65535"])
# All that a URI may have behind its host, at most one # apart.
part = st.sampled_from([*"abcXYZ019-._~!$&'()*+,;=:@/?", "%20", "%C3%A4", "%0a", ".."])
rest = st.builds(
    lambda mark, parts: mark and mark + "".join(parts),
    st.sampled_from(["", "/", "?", "#"]), st.lists(part, max_size=40),
)
scheme = st.sampled_from(["http", "https", "HTTPS"])
destination = st.builds(lambda *parts: "{}://{}{}{}".format(*parts), scheme, host, port, rest)

schemathesis.openapi.format("uri", destination)
schemathesis.openapi.format("cursor", st.just(CURSOR))
schemathesis.openapi.format("consistency-token", st.just(TOKEN))
schemathesis.openapi.format("entity-tags", st.sampled_from(["*", '"1"', '"2", "1"', 'W/"1"']))


def is_uuid(text):
    try:
        return str(uuid.UUID(text)) == text.lower()
    except (ValueError, TypeError, AttributeError):
        return False


@schemathesis.hook
def before_call(context, case, kwargs):
    query, headers = case.query or {}, case.headers or {}
    if query.get("cursor") == CURSOR:
        query["cursor"] = CURSORS[case.operation.path]
    # A cursor belongs to the list it was given out for, filters included.
    if query.get("cursor") in FILTERS_OF_CURSOR:
        for name in FILTERS:
            query.pop(name, None)
        query.update(FILTERS_OF_CURSOR[query["cursor"]])
    # A key belongs to one body: each case has a key of its own.
    if is_uuid(headers.get("Idempotency-Key")):
        headers["Idempotency-Key"] = str(next(FRESH_KEYS))
    # Addresses that were seen in answers are used again, but no link may lead to a short link.
    for members in (query, case.body if isinstance(case.body, dict) else {}):
        if str(members.get("destination_url", "")).startswith(SHORT_URL):
            members["destination_url"] = "https://example.com/"
    # Whoever must see what was just changed or deleted says so.
    if case.method == "GET" and headers.get("Consistency-Token", TOKEN) == TOKEN:
        case.headers["Consistency-Token"] = latest_token


@schemathesis.hook
def after_call(context, case, response):
    global latest_token
    latest_token = response.headers.get("consistency-token", [latest_token])[0]
    if response.status_code == 200 and (page := response.json()).get("next_cursor"):
        query = case.query or {}
        FILTERS_OF_CURSOR[page["next_cursor"]] = {name: query[name] for name in FILTERS if name in query}


@schemathesis.check
def unavailable_is_only_behind(context, response, case):
    """Reads may be refused while the read tables lag, which a busy machine can cause; nothing else."""
    if response.status_code == 503:
        code = response.json()["code"]
        assert code == "read_model_behind", f"503 {code}"
