"""Reads the whole topic with a standard Kafka client, and compares every record with the documents of docs/ and
with the database.

usage: check_stream.py ASYNCAPI_SCHEMA, with KAFKA_BROKERS, KAFKA_TOPIC and DATABASE_URL in the
environment; ASYNCAPI_SCHEMA is AsyncAPI's own JSON Schema of its documents
"""

import collections
import json
import os
import sys
import time
import uuid

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from kafka_partition import SHARDS, partition_of
from stream_documents import DOCUMENT, SCHEMAS, check, check_documents, valid

DEADLINE_S = 120
BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"


# --- the records ---


class Reader:
    def __init__(self, headers, payloads):
        self.headers, self.payloads = headers, payloads
        self.last = collections.Counter()
        self.records = self.duplicates = 0
        self.types = collections.Counter()
        self.credits = collections.Counter()
        self.created = {}
        self.of_link = collections.defaultdict(list)

    def until(self, heads):
        topic = os.environ["KAFKA_TOPIC"]
        settings = {"bootstrap.servers": os.environ["KAFKA_BROKERS"], "group.id": "check", "enable.auto.commit": False}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(SHARDS)])
        until = time.monotonic() + DEADLINE_S
        while any(self.last[shard] < head for shard, head in heads.items()):
            check(time.monotonic() < until, f"after {DEADLINE_S} s only {dict(self.last)} of {heads} were read")
            for message in consumer.consume(1000, timeout=1):
                check(message.error() is None, f"the broker returns the error {message.error()}")
                self.add(message)
        consumer.close()

    def add(self, message):
        self.records += 1
        place = f"the record at {message.partition()}/{message.offset()}"
        headers = {name: value.decode() for name, value in message.headers()}
        check(len(headers) == len(message.headers()), f"{place} has a header twice")
        event_type = headers["ce_type"]
        check(event_type in self.headers, f"{place} is of the type {event_type}, which no document has")
        valid(self.headers[event_type], headers, f"{place}: its headers")
        data = json.loads(message.value())
        valid(self.payloads[headers["ce_dataschema"]], data, f"{place}: its payload")
        if "ce_linkstate" in headers:
            state = json.loads(headers["ce_linkstate"])
            valid(self.payloads["urn:linkledger:schema:LinkState:v1"], state, f"{place}: the state of its link")
        self.check_place(message, headers, data, place)
        sequence = int(headers["ce_sequence"])
        last = self.last[message.partition()]
        if sequence <= last:
            self.duplicates += 1
            return
        check(sequence == last + 1, f"{place} has the sequence {sequence}, after {last}")
        self.last[message.partition()] = sequence
        self.apply(event_type.split(".")[1], message.partition(), sequence, data)

    def check_place(self, message, headers, data, place):
        key = message.key()
        check(message.partition() == partition_of(key), f"{place} belongs to the partition {partition_of(key)}")
        check(headers["ce_source"] == f"/linkledger/shards/{message.partition()}", f"{place} is of {headers['ce_source']}")
        accounts = {key.decode(), headers["ce_partitionkey"], data["account_id"]}
        check(len(accounts) == 1, f"{place} is of several accounts: {accounts}")
        check(headers["ce_subject"] in (data["account_id"], data.get("link_id")), f"{place} is about {headers['ce_subject']}")

    def apply(self, event_type, shard, sequence, data):
        self.types[event_type] += 1
        account, amount = data["account_id"], data.get("amount", 0)
        self.credits[account] += -amount if event_type in ("CreditsCharged", "CreditsRevoked") else amount
        if "balance_after" in data:
            check(self.credits[account] == data["balance_after"], f"{account}: {self.credits[account]} is not {data}")
        if event_type == "LinkCreated":
            check(data["link_id"] not in self.created, f"{data['link_id']} was created twice")
            self.created[data["link_id"]] = account
        if "link_id" in data:
            self.of_link[data["link_id"]].append((event_type, shard, sequence))


# --- the database ---


def text_id(prefix, value):
    bits = uuid.UUID(str(value)).int
    return f"{prefix}_" + "".join(BASE32[bits >> 5 * place & 31] for place in reversed(range(26)))


def check_links(reader, links, untouched):
    """Checks that each link of the database was created and charged at neighbouring positions, and that the links
    of the accounts in `untouched` have no further event."""
    check(set(reader.created) == links, f"{len(reader.created)} links were created, but {len(links)} are in the database")
    for link, events in reader.of_link.items():
        (first, shard, position), (second, *place) = events[:2]
        in_order = (first, second) == ("LinkCreated", "CreditsCharged")
        check(in_order and place == [shard, position + 1], f"{link} begins with {events[:2]}")
        changed = any(event_type in ("LinkCreated", "CreditsCharged") for event_type, *_ in events[2:])
        check(not changed, f"{link} was created or charged again: {events}")
        check(len(events) == 2 or reader.created[link] not in untouched, f"{link} has {len(events)} events")


def main(asyncapi_schema):
    headers, payloads = check_documents(asyncapi_schema)
    untouched = set(os.environ.get("UNTOUCHED_ACCOUNTS", "").split())
    with psycopg.connect(os.environ["DATABASE_URL"]) as database:
        heads = dict(database.execute("SELECT shard, head FROM event_store.log_shards"))
        balances = {text_id("acc", row[0]): row[1] for row in database.execute("SELECT account_id, balance FROM event_store.accounts")}
        links = {text_id("lnk", row[0]) for row in database.execute("SELECT link_id FROM event_store.slugs")}
    reader = Reader(headers, payloads)
    began = time.monotonic()
    reader.until(heads)
    check(dict(reader.last) == {shard: head for shard, head in heads.items() if head}, f"{reader.last} is not {heads}")
    sums = {account: reader.credits[account] for account in balances}
    check(sums == balances, f"the sums {sums} are not the balances {balances}")
    check_links(reader, links, untouched)
    of_type = ", ".join(f"{count:,} {event_type}" for event_type, count in sorted(reader.types.items()))
    print(
        f"{reader.records:,} records in {time.monotonic() - began:.1f} s, {reader.duplicates:,} of them duplicates: {of_type}\n"
        f"valid against {DOCUMENT} and {SCHEMAS}; contiguous in {len(reader.last)} shards;"
        f" {len(links):,} links of two events; {len(balances)} balances are the sums"
    )
    # A notice of a webhook that fails takes an hour.
    events = {event_type.split(".")[1] for event_type in headers} - {"LinkClicked", "WebhookFailing"}
    missing = sorted(events - reader.types.keys())
    check(not missing, f"no event of these types was read: {missing}; run commands that append them in .ci/consumers")


main(sys.argv[1])
