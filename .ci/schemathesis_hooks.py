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


TOKEN = [create(n) for n in range(3)][-1]
CURSORS = {path: cursor_of(path) for path in ("/v1/links", "/v1/credits/entries")}
FRESH_KEYS = (uuid.UUID(int=n) for n in itertools.count(1_000_000))

label = st.from_regex(r"\A[a-z0-9_]([a-z0-9_]{0,10}[a-z0-9])?\Z").filter(lambda text: text[:4] != "xn--")
host = st.builds(lambda labels, last: ".".join([*labels, last]),
                 st.lists(label, min_size=1, max_size=3), st.sampled_from(["com", "org", "example"]))
port = st.one_of(st.just(""), st.sampled_from([80, 443, 1024, 65535]).map(lambda port: f":{port}"))
# Whatever may stand in an address: no control characters, no backslash, no space at the end.
rest = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\\ "), max_size=40)
destination = st.builds(
    lambda scheme, host, port, mark, rest: f"{scheme}://{host}{port}" + (f"{mark}{rest}" if mark else ""),
    st.sampled_from(["http", "https", "HTTPS"]), host, port, st.sampled_from(["", "/", "?", "#"]), rest,
)

schemathesis.openapi.format("uri", destination)
schemathesis.openapi.format("cursor", st.just(CURSOR))
schemathesis.openapi.format("consistency-token", st.just(TOKEN))


def is_uuid(text):
    try:
        return str(uuid.UUID(text)) == text.lower()
    except (ValueError, TypeError, AttributeError):
        return False


@schemathesis.hook
def before_call(context, case, kwargs):
    query = case.query or {}
    if query.get("cursor") == CURSOR:
        query["cursor"] = CURSORS[case.operation.path]
    # A key belongs to one body: each case has a key of its own.
    headers = case.headers or {}
    if is_uuid(headers.get("Idempotency-Key")):
        headers["Idempotency-Key"] = str(next(FRESH_KEYS))
    # Addresses that were seen in answers are used again, but no link may lead to a short link.
    body = case.body if isinstance(case.body, dict) else {}
    if str(body.get("destination_url", "")).startswith(SHORT_URL):
        body["destination_url"] = "https://example.com/"
