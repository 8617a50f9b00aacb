"""Publishes an archive of clicks on a topic again, so that they can be counted again (docs/clicks-operation.md).

usage: publish_clicks.py ARCHIVE

Each record gets the partition and the headers that it had. The settings are those of click_stream.py.
"""

import argparse
import collections
import json
import os
import sys

import click_stream
import event_stream
from confluent_kafka import KafkaException, Producer

FLUSH_TIME_MAX_S = 60
PLACE = ("recorder", "partition", "sequence", "mac")


def main():
    parser = argparse.ArgumentParser(description="Publishes an archive of clicks on a topic again.")
    parser.add_argument("archive", help="a file of `consume_clicks.py --archive`")
    path = parser.parse_args().archive
    try:
        print(f"{publish(path):,} records", file=sys.stderr)
    except (event_stream.StreamError, OSError) as error:
        sys.exit(f"publish_clicks.py: {error}")
    except KafkaException as error:
        sys.exit(f"publish_clicks.py: {error.args[0].str()}")


def publish(path):
    """Publishes the clicks of an archive, and returns their number."""
    topic = os.environ.get("KAFKA_CLICKS_TOPIC", click_stream.TOPIC)
    complaints = collections.deque(maxlen=1)
    # A producer's question could create the topic, with wrong settings: a consumer asks first.
    event_stream.connect(topic, complaints)[0].close()
    settings = {"enable.idempotence": True, "compression.type": "lz4", "log_level": 0}
    producer = Producer({**event_stream.client_settings(), **settings, "error_cb": lambda error: complaints.append(error.str())})
    refused, count = [], 0

    def delivered(error, _):
        if error is not None:
            refused.append(error.str())

    with open(path, encoding="utf-8") as file:
        for count, line in enumerate(file, 1):
            send(producer, topic, line, delivered)
            if refused:
                break
    if producer.flush(FLUSH_TIME_MAX_S) or refused:
        silence = f"no acknowledgement within {FLUSH_TIME_MAX_S} s"
        why = ": ".join([*(refused[:1] or [silence]), *complaints])
        raise event_stream.StreamError(f"not all clicks of {path} were published: {why}")
    return count


def send(producer, topic, line, delivered):
    try:
        data = json.loads(line)
        click = click_stream.Click(**{name: data.pop(name) for name in PLACE}, data=data)
        key = data["link_id"]
    except (ValueError, KeyError) as error:
        raise event_stream.StreamError(f"a line is no click of an archive: {line[:80].strip()}") from error
    record = {
        "key": key,
        "value": json.dumps(data, ensure_ascii=False, separators=(",", ":")),  # the bytes that its code is of
        "partition": click.partition,
        "headers": click_stream.headers_of(click),
        "on_delivery": delivered,
    }
    while True:
        try:
            producer.produce(topic, **record)
            break
        except BufferError:  # as many records as fit wait for their acknowledgements
            producer.poll(1)
    producer.poll(0)


if __name__ == "__main__":
    main()
