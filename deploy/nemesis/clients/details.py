"""Details of links, drawn at random."""

import datetime
import time

DETAILS = ("title", "tags", "external_id", "expires_at", "expired_url")
STATES = ("active", "disabled", "expired")
# Time until a link expires: some have expired when they are created, some expire during the run, some long after it.
SOON_S, LATER_S = (-4, 25), (86_400, 10_000_000)


def new_details(draw, number):
    """Draws details: few external ids, so that many are taken, and all members or some."""
    found = {"title": f"Link {number}", "tags": [f"tag-{number % 7}", "all"]}
    if draw.random() < 0.5:
        found["external_id"] = any_external_id(draw, number)
    if draw.random() < 0.5:
        instant = time.time() + draw.uniform(*draw.choice([SOON_S, LATER_S]))
        text = datetime.datetime.fromtimestamp(instant, datetime.UTC).isoformat(timespec="milliseconds")
        found["expires_at"] = text.replace("+00:00", "Z")
        if draw.random() < 0.5:
            found["expired_url"] = f"https://example.com/expired/{number}"
    return found


def any_external_id(draw, number):
    """Draws one of few external ids, whose number grows with the number of draws."""
    return f"id:{draw.randrange(5 + number // 8)}"
