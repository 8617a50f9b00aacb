"""The event stream of linkledger, each event once and in order: the rule of docs/events.md.

Settings are the variables of `.linkledger/env`, KAFKA_BROKERS and KAFKA_TOPIC, and for TLS and passwords
those of linkledger.
"""

import collections
import json
import os
import sys
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

ANSWER_TIME_MAX_S = 10
SILENCE_MAX_S = 30


class StreamError(Exception):
    """The stream can't be read; the text has the reason and the remedy."""


@dataclass
class Event:
    partition: int
    epoch: int
    sequence: int
    type: str
    time: str
    account_id: str
    subject: str
    data: dict


class Applied:
    """The last applied event of each partition."""

    def __init__(self):
        self.last = {}

    def is_next(self, partition, epoch, sequence):
        """Returns True for a new record, and counts it as applied."""
        last_epoch, last = self.last.get(partition, (epoch, None))
        if epoch > last_epoch:
            raise StreamError(
                f"the log was restored: partition {partition} went from epoch {last_epoch} to {epoch}."
                " Discard all derived results, and begin anew"
            )
        if epoch < last_epoch or (last is not None and sequence <= last):
            return False  # repeated
        if last is not None and sequence > last + 1:
            raise StreamError(
                f"partition {partition} lacks the events between {last} and {sequence}:"
                " only `command-api log export` has them"
            )
        self.last[partition] = (epoch, sequence)
        return True


def read(follow=False):
    """Yields the events from the beginning of the topic to its end, or for ever."""
    applied = Applied()
    for message in records(topic(), follow):
        event = event_of(message)
        if event.partition not in applied.last and event.sequence > 1:
            print(
                f"partition {event.partition} begins with event {event.sequence}:"
                " only `command-api log export` has earlier events",
                file=sys.stderr,
            )
        if applied.is_next(event.partition, event.epoch, event.sequence):
            yield event


def topic():
    """Returns the name of the topic of events."""
    return os.environ.get("KAFKA_TOPIC", "linkledger.events.v1")


def records(topic, follow=False):
    """Yields the records from the beginning of a topic to its end, or for ever."""
    complaints = collections.deque(maxlen=1)
    consumer, partitions = connect(topic, complaints)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        yield from poll(consumer, set(partitions), follow, complaints)
    except KafkaException as error:
        raise StreamError(f"the topic {topic} can't be read: {error.args[0].str()}") from error
    finally:
        consumer.close()


def poll(consumer, unfinished, follow, complaints):
    while follow or unfinished:
        message = consumer.poll(SILENCE_MAX_S)
        if message is None:
            why = f": {complaints.pop()}" if complaints else ""
            if not follow:
                raise StreamError(f"the broker has sent nothing for {SILENCE_MAX_S} s{why}")
            if why:
                print(f"no record for {SILENCE_MAX_S} s{why}", file=sys.stderr)
        elif message.error() is None:
            yield message
        elif message.error().code() == KafkaError._PARTITION_EOF:
            unfinished.discard(message.partition())
        elif not message.error().retriable():
            raise KafkaException(message.error())


def event_of(message):
    headers = {name: value.decode() for name, value in message.headers() or []}
    return Event(
        partition=message.partition(),
        epoch=int(headers["ce_logepoch"]),
        sequence=int(headers["ce_sequence"]),
        type=headers["ce_type"],
        time=headers["ce_time"],
        account_id=headers["ce_partitionkey"],
        subject=headers["ce_subject"],
        data=json.loads(message.value()),
    )


def connect(topic, complaints):
    """Returns a consumer, and the topic's partitions; the consumer adds its errors to complaints."""
    settings = {
        **client_settings(),
        "group.id": "linkledger-examples",  # required, but unused: partitions are assigned by hand
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "log_level": 0,
        "error_cb": lambda error: complaints.append(error.str()),
    }
    try:
        consumer = Consumer(settings)
    except KafkaException as error:
        raise StreamError(f"the settings of Kafka are refused: {error.args[0].str()}") from error
    try:
        known = consumer.list_topics(topic, timeout=ANSWER_TIME_MAX_S).topics[topic]
    except KafkaException as error:
        consumer.poll(0)  # delivers the errors
        why = complaints.pop() if complaints else error.args[0].str()
        brokers = settings["bootstrap.servers"]
        raise StreamError(f"no Kafka broker answers at {brokers}: {why}. Is linkledger running?") from error
    if known.error is not None:
        raise StreamError(f"the topic {topic} can't be read: {known.error.str()}")
    return consumer, sorted(known.partitions)


def client_settings():
    """Returns the settings that every client of the brokers needs."""
    brokers = os.environ.get("KAFKA_BROKERS")
    if not brokers:
        raise StreamError("KAFKA_BROKERS is not set: in the folder of the stack, `set -a; . .linkledger/env; set +a`")
    try:
        return {"bootstrap.servers": brokers, **security()}
    except OSError as error:
        raise StreamError(f"the settings of Kafka are refused: {error}") from error


def security():
    protocol = os.environ.get("KAFKA_SECURITY_PROTOCOL", "plaintext")
    settings = {
        "security.protocol": protocol,
        "ssl.ca.location": os.environ.get("KAFKA_CA_FILE"),
        "ssl.certificate.location": os.environ.get("KAFKA_CERTIFICATE_FILE"),
        "ssl.key.location": os.environ.get("KAFKA_KEY_FILE"),
        "sasl.mechanism": os.environ.get("KAFKA_SASL_MECHANISM", "scram-sha-512").upper()
        if protocol.startswith("sasl")
        else None,
        "sasl.username": os.environ.get("KAFKA_USERNAME"),
    }
    if password_file := os.environ.get("KAFKA_PASSWORD_FILE"):
        with open(password_file, encoding="utf-8") as file:  # any end of line is read as \n
            settings["sasl.password"] = file.read().removesuffix("\n")
    return {name: value for name, value in settings.items() if value}
