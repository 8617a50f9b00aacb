"""Writes clicks as lines of an archive (docs/clicks-operation.md), always the same ones: several recorders, links,
accounts and days, humans and bots, merged records, records without details, and some lost ones.

usage: example_clicks.py NUMBER
"""

import datetime
import json
import random
import sys
import uuid

from kafka_partition import partition_of

BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
BEGIN = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
DAYS = 20
LINKS_OF_ACCOUNT = 8
ACCOUNTS = 5
RECORDERS = 3
VISITORS = 400
COUNTRIES = ["DE", "FR", "US", "BR", "JP", None]
REFERRERS = ["news.example.com", "chat.example.org", "search.example.net", None]
DEVICES = ["desktop", "mobile", "tablet", "other", None]
BROWSERS = ["Chrome", "Firefox", "Safari", None]
SYSTEMS = ["Android", "iOS", "Linux", "Windows", None]


def type_id(prefix, number):
    digits = []
    for _ in range(26):
        number, digit = divmod(number, 32)
        digits.append(BASE32[digit])
    return f"{prefix}_{''.join(reversed(digits))}"


def clicks(number):
    """Yields the clicks, as lines of an archive without JSON."""
    draw = random.Random(20261123)
    recorders = [str(uuid.UUID(int=draw.getrandbits(128), version=4)) for _ in range(RECORDERS)]
    sequences = {}
    for _ in range(number):
        account = draw.randrange(ACCOUNTS)
        # Few links have most of the clicks.
        nth = min(int(draw.expovariate(0.7)), LINKS_OF_ACCOUNT - 1)
        link_id = type_id("lnk", 1000 + account * LINKS_OF_ACCOUNT + nth)
        recorder, partition = draw.choice(recorders), partition_of(link_id.encode())
        sequence = sequences[recorder, partition] = sequences.get((recorder, partition), 0) + 1
        at = BEGIN + datetime.timedelta(milliseconds=draw.randrange(DAYS * 86_400_000))
        click = {
            "link_id": link_id,
            "account_id": type_id("acc", 1 + account),
            "slug": f"link-{account}-{nth}",
            "clicked_at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "kind": draw.choices(["human", "bot"], [4, 1])[0],
            **details(draw, account, at),
        }
        if draw.random() < 0.02:
            click = {name: click[name] for name in ("link_id", "account_id", "slug", "clicked_at", "kind")}
            click["count"] = draw.randrange(2, 50)
        if click["kind"] == "bot":
            click.pop("visitor", None)
        if draw.random() < 0.001:
            continue  # a lost record
        yield {**click, "recorder": recorder, "partition": partition, "sequence": sequence}


def details(draw, account, at):
    visitor = random.Random(f"{account} {at.date()} {draw.randrange(VISITORS)}").getrandbits(64)
    found = {
        "visitor": f"{visitor:016x}" if draw.random() < 0.9 else None,
        "country": draw.choice(COUNTRIES),
        "referrer_host": draw.choice(REFERRERS),
        "browser": draw.choice(BROWSERS),
        "os": draw.choice(SYSTEMS),
        "device": draw.choice(DEVICES),
    }
    return {name: value for name, value in found.items() if value is not None}


def main():
    for click in clicks(int(sys.argv[1])):
        print(json.dumps(click))


if __name__ == "__main__":
    main()
