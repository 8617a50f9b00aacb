"""Uses the package that openapi-generator makes for Python.

usage: main.py FOLDER, with API_URL and API_KEY in the environment; FOLDER has the package `linkledger`
"""

import os
import sys
import uuid
from datetime import datetime, timezone

sys.path.insert(0, sys.argv[1])
import linkledger  # noqa: E402
from linkledger import BatchItem, LinkBatch, LinkCreate, LinkPatch  # noqa: E402

run = uuid.uuid4().hex[:12]
slug, tag, page = f"Python-{run}", f"python-{run}", "https://example.com/a|b?c=[d]"
configuration = linkledger.Configuration(host=os.environ["API_URL"], access_token=os.environ["API_KEY"])
api = linkledger.ApiClient(configuration)
links, clicks = linkledger.LinksApi(api), linkledger.ClicksApi(api)

# Create; a retry creates nothing.
expiry = datetime(2099, 12, 31, tzinfo=timezone.utc)
wanted = LinkCreate(destination_url=page, slug=slug, title="Größe", tags=[tag], expires_at=expiry)
key = str(uuid.uuid4())
created = links.create_link(key, wanted)
assert created.short_url.endswith(slug) and created.destination_url == page, created
assert created.expires_at == expiry and created.credits_charged == 1, created
assert links.create_link(key, wanted) == created

# A refusal is typed.
try:
    links.create_link(str(uuid.uuid4()), wanted)
    raise AssertionError("a slug was taken twice")
except linkledger.exceptions.ConflictException as refused:
    assert refused.data.code == "slug_taken" and refused.data.status == 409, refused

# Batch: one link and one refusal; a dry run has a link without id.
items = [
    BatchItem(idempotency_key=str(uuid.uuid4()), destination_url=page, tags=[tag]),
    BatchItem(idempotency_key=str(uuid.uuid4()), destination_url=page, slug=slug),
]
answer = links.create_links_with_http_info(LinkBatch(items=items))
token = answer.headers["consistency-token"]
second, taken = answer.data.items
assert (answer.status_code, answer.data.credits_charged) == (207, 1), answer
assert second.status == 201 and second.link.id and second.problem is None, second
assert taken.status == 409 and taken.link is None and taken.problem.code == "slug_taken", taken
items[0].idempotency_key = str(uuid.uuid4())
rehearsed = links.create_links(LinkBatch(mode="dry_run", items=items[:1])).items[0]
assert rehearsed.link.id is None and rehearsed.link.destination_url == page, rehearsed

# List two pages, newest first.
first_page = links.list_links(limit=1, tag=tag, consistency_token=token)
last_page = links.list_links(limit=1, tag=tag, cursor=first_page.next_cursor, consistency_token=token)
assert [link.id for link in first_page.items + last_page.items] == [second.link.id, created.id]
assert first_page.has_more and not last_page.has_more and last_page.next_cursor is None

# Read and change.
read = links.get_link_with_http_info(created.id)
assert read.data.title == "Größe" and read.data.tags == [tag], read.data
etag = read.headers["etag"]
changed = links.change_link(created.id, LinkPatch(title=None, disabled=True), if_match=etag)
assert changed.title is None and changed.disabled and changed.disabled_by == "owner", changed
try:
    links.change_link(created.id, LinkPatch(disabled=False), if_match=etag)
    raise AssertionError("an old version was changed")
except linkledger.ApiException as refused:
    assert refused.status == 412 and refused.data.code == "etag_mismatch", refused
history = links.get_link_history(created.id).items
assert history[-1].changes["destination_url"].to == page, history

# Clicks.
hours = clicks.get_link_clicks(created.id, interval="hour")
assert hours.link_id == created.id and hours.totals.clicks == 0 and hours.series[0].visitors is None, hours
days = clicks.get_clicks(interval="day", timezone="Europe/Berlin").series
assert sum(day.visitors or 0 for day in days) > 0, days
assert clicks.get_top_clicks(by="country").items[0].value is None
top_links = clicks.get_top_links(limit=100).items
assert {None, os.environ["CLICKED_URL"]} <= {link.short_url for link in top_links}, top_links

links.delete_link(created.id)
print("openapi-generator, Python: all answers were read")
