"""The stream of clicks of linkledger, each click once, and what is missing: the rule of docs/clicks.md.

Settings are the variables of `.linkledger/env`, KAFKA_BROKERS and KAFKA_CLICKS_TOPIC, and for TLS and
passwords those of linkledger.
"""

import collections
import json
import os
from dataclasses import dataclass

import event_stream

TOPIC = "linkledger.clicks.v1"
TYPE = "linkledger.LinkClicked.v1"
SOURCE = "/linkledger/recorders/"


@dataclass
class Click:
    partition: int
    recorder: str
    sequence: int
    mac: str  # by which projector knows the record, also when it is published again
    data: dict

    @property
    def count(self):
        return self.data.get("count", 1)


class Counted:
    """The highest sequence of each recorder in each partition, and the number of those that were skipped."""

    def __init__(self):
        self.last = {}
        self.missing = collections.Counter()

    def is_next(self, partition, source, sequence):
        """Returns True for a new record, and adds up the sequences that were skipped."""
        key = (partition, source)
        last = self.last.get(key, 0)
        if sequence <= last:
            return False  # repeated
        self.missing[key] += sequence - last - 1
        self.last[key] = sequence
        return True


def read(counted, follow=False):
    """Yields the clicks from the beginning of the topic to its end, or for ever."""
    for message in event_stream.records(os.environ.get("KAFKA_CLICKS_TOPIC", TOPIC), follow):
        click = click_of(message)
        if click and counted.is_next(click.partition, click.recorder, click.sequence):
            yield click


def click_of(message):
    """Returns the click; None for a record of another type or version, or of somebody else."""
    try:
        headers = {name: value.decode() for name, value in message.headers() or []}
        if headers["ce_type"] != TYPE:
            return None
        return Click(
            partition=message.partition(),
            recorder=headers["ce_source"].removeprefix(SOURCE),
            sequence=int(headers["ce_sequence"]),
            mac=headers["ce_mac"],
            data=json.loads(message.value()),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def headers_of(click):
    """Returns the headers of a click's record."""
    return {
        "content-type": "application/json",
        "ce_specversion": "1.0",
        "ce_id": f"{click.recorder}-{click.partition}-{click.sequence}",
        "ce_source": SOURCE + click.recorder,
        "ce_type": TYPE,
        "ce_sequence": str(click.sequence),
        "ce_mac": click.mac,
    }
