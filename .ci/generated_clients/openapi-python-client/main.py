"""Uses the package that openapi-python-client makes.

usage: main.py FOLDER, with API_URL and API_KEY in the environment; FOLDER has the package `linkledger_client`
"""

import os
import sys
import uuid
from datetime import datetime, timezone

sys.path.insert(0, sys.argv[1])
from linkledger_client import AuthenticatedClient  # noqa: E402
from linkledger_client.api.clicks import get_clicks, get_link_clicks, get_top_clicks, get_top_links  # noqa: E402
from linkledger_client.api.links import (  # noqa: E402
    change_link, create_link, create_links, delete_link, get_link, get_link_history, list_links,
)
from linkledger_client.models import (  # noqa: E402
    BatchItem, GetLinkClicksInterval, LinkBatch, LinkBatchMode, LinkCreate, LinkPatch, Problem,
)
from linkledger_client.types import UNSET  # noqa: E402

run = uuid.uuid4().hex[:12]
slug, tag, page = f"Attrs-{run}", f"attrs-{run}", "https://example.com/a|b?c=[d]"
client = AuthenticatedClient(base_url=os.environ["API_URL"], token=os.environ["API_KEY"])

# Create; a retry creates nothing.
expiry = datetime(2099, 12, 31, tzinfo=timezone.utc)
wanted = LinkCreate(destination_url=page, slug=slug, title="Größe", tags=[tag], expires_at=expiry)
key = str(uuid.uuid4())
created = create_link.sync(client=client, body=wanted, idempotency_key=key)
assert created.short_url.endswith(slug) and created.destination_url == page, created
assert created.expires_at == expiry and created.credits_charged == 1, created
assert create_link.sync(client=client, body=wanted, idempotency_key=key) == created

# A refusal is typed.
refused = create_link.sync(client=client, body=wanted, idempotency_key=str(uuid.uuid4()))
assert isinstance(refused, Problem) and refused.code == "slug_taken" and refused.status == 409, refused

# Batch: one link and one refusal; a dry run has a link without id.
items = [
    BatchItem(idempotency_key=uuid.uuid4(), destination_url=page, tags=[tag]),
    BatchItem(idempotency_key=uuid.uuid4(), destination_url=page, slug=slug),
]
answer = create_links.sync_detailed(client=client, body=LinkBatch(items=items))
token = answer.headers["Consistency-Token"]
second, taken = answer.parsed.items
assert (answer.status_code, answer.parsed.credits_charged) == (207, 1), answer
assert second.status == 201 and second.link.id and second.problem is UNSET, second
assert taken.status == 409 and taken.link is UNSET and taken.problem.code == "slug_taken", taken
items[0].idempotency_key = uuid.uuid4()
rehearsal = LinkBatch(mode=LinkBatchMode.DRY_RUN, items=items[:1])
rehearsed = create_links.sync(client=client, body=rehearsal).items[0]
assert rehearsed.link.id is UNSET and rehearsed.link.destination_url == page, rehearsed

# List two pages, newest first.
first_page = list_links.sync(client=client, limit=1, tag=tag, consistency_token=token)
last_page = list_links.sync(client=client, limit=1, tag=tag, cursor=first_page.next_cursor, consistency_token=token)
assert [link.id for link in first_page.items + last_page.items] == [second.link.id, created.id]
assert first_page.has_more and not last_page.has_more and last_page.next_cursor is None

# Read and change.
read = get_link.sync_detailed(created.id, client=client)
assert read.parsed.title == "Größe" and read.parsed.tags == [tag], read.parsed
etag = read.headers["ETag"]
patch = LinkPatch(title=None, disabled=True)
changed = change_link.sync(created.id, client=client, body=patch, if_match=etag)
assert changed.title is UNSET and changed.disabled and changed.disabled_by == "owner", changed
refused = change_link.sync(created.id, client=client, body=LinkPatch(disabled=False), if_match=etag)
assert isinstance(refused, Problem) and refused.code == "etag_mismatch", refused
history = get_link_history.sync(created.id, client=client).items
assert history[-1].changes["destination_url"].to == page, history

# Clicks.
hours = get_link_clicks.sync(created.id, client=client, interval=GetLinkClicksInterval.HOUR)
assert hours.link_id == created.id and hours.totals.clicks == 0 and hours.series[0].visitors is None, hours
days = get_clicks.sync(client=client, timezone="Europe/Berlin").series
assert sum(day.visitors or 0 for day in days) > 0, days
assert get_top_clicks.sync(client=client).items[0].value is None
top_links = get_top_links.sync(client=client, limit=100).items
assert {None, os.environ["CLICKED_URL"]} <= {link.short_url for link in top_links}, top_links

assert delete_link.sync_detailed(created.id, client=client).status_code == 204
print("openapi-python-client: all answers were read")
