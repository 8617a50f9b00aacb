"""Reads the topic of clicks until it has the expected clicks, and compares every record with the documents of
docs/ and with the requests that were made. Neither the topic nor the tables of clicks may have more of a client.

usage: check_clicks.py ASYNCAPI_SCHEMA EXPECTED, with KAFKA_BROKERS, KAFKA_CLICKS_TOPIC and DATABASE_URL in the
environment;
EXPECTED is a JSON object: by slug, the number of clicks of each kind, such as {"spring": {"human": 3, "bot": 1}}
"""

import collections
import json
import os
import re
import sys
import time

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from kafka_partition import SHARDS, partition_of
from stream_documents import DOCUMENT, check, check_documents, valid

DEADLINE_S = 60
# After the last expected click: time in which a click too many would arrive.
SETTLING_S = 2
TYPE = "linkledger.LinkClicked.v1"
SCHEMA = "urn:linkledger:schema:LinkClicked:v1"
# Addresses, user agents and paths of referrers of the requests.
PERSONAL = re.compile(rb"127\.0\.0\.1|Mozilla/|Gecko|curl/|/today")


class Clicks:
    def __init__(self, headers, payloads):
        self.headers, self.payload = headers[TYPE], payloads[SCHEMA]
        self.last = {}
        self.repeats = 0
        self.by_slug = collections.defaultdict(collections.Counter)

    def total(self):
        return sum(counts.total() for counts in self.by_slug.values())

    def add(self, message):
        place = f"the click at {message.partition()}/{message.offset()}"
        headers = {name: value.decode() for name, value in message.headers()}
        valid(self.headers, headers, f"{place}: its headers")
        data = json.loads(message.value())
        valid(self.payload, data, f"{place}: its value")
        key = message.key()
        check(key == data["link_id"].encode(), f"{place} has the key {key}")
        check(message.partition() == partition_of(key), f"{place} belongs to the partition {partition_of(key)}")
        recorder = headers["ce_source"].rsplit("/", 1)[1]
        record_id = f"{recorder}-{message.partition()}-{headers['ce_sequence']}"
        check(headers["ce_id"] == record_id, f"{place} has the id {headers['ce_id']}")
        check(not PERSONAL.search(message.value()), f"{place} has too much")
        last, sequence = self.last.get((recorder, message.partition()), 0), int(headers["ce_sequence"])
        if sequence <= last:
            self.repeats += 1
            return
        check(sequence == last + 1, f"{place} has the sequence {sequence}, after {last}")
        self.last[recorder, message.partition()] = sequence
        self.by_slug[data["slug"]][data["kind"]] += data.get("count", 1)


def check_tables():
    """Reads all rows of the schema clicks as text, and their bytes, once statistics are written."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as database:
        until = time.monotonic() + DEADLINE_S
        while not database.execute("SELECT FROM clicks.link_values, clicks.link_days LIMIT 1").fetchall():
            check(time.monotonic() < until, f"no statistics within {DEADLINE_S} s")
            time.sleep(0.2)
        tables = database.execute("SELECT relname FROM pg_stat_user_tables WHERE schemaname = 'clicks'").fetchall()
        rows = 0
        for (table,) in tables:
            for (row,) in database.execute(f'SELECT t::text FROM clicks."{table}" AS t'):
                parts = [row.encode(), *map(bytes.fromhex, re.findall(r"\\x((?:[0-9a-f]{2})+)", row))]
                check(not any(map(PERSONAL.search, parts)), f"a row of the table clicks.{table} has too much")
                rows += 1
        return f"{rows} rows of {len(tables)} tables"


def main(asyncapi_schema, expected):
    clicks = Clicks(*check_documents(asyncapi_schema))
    expected = {slug: collections.Counter(counts) for slug, counts in json.loads(expected).items()}
    total = sum(counts.total() for counts in expected.values())
    settings = {"bootstrap.servers": os.environ["KAFKA_BROKERS"], "group.id": "check", "enable.auto.commit": False}
    consumer = Consumer(settings)
    topic = os.environ["KAFKA_CLICKS_TOPIC"]
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(SHARDS)])
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        for message in consumer.consume(1000, timeout=0.2):
            check(message.error() is None, f"the broker returns the error {message.error()}")
            clicks.add(message)
            if clicks.total() == total:
                until = min(until, time.monotonic() + SETTLING_S)
    consumer.close()
    check(dict(clicks.by_slug) == expected, f"{dict(clicks.by_slug)} were recorded, and {expected} were made")
    print(f"nothing of a client in {check_tables()}")
    print(f"{total} clicks, {clicks.repeats} repeats, {len(clicks.last)} sequences without a gap; valid against {DOCUMENT}")


main(*sys.argv[1:])
