#!/usr/bin/env python3
"""Measures the delay from commit to consumer, as a foreign consumer of the topic.

    delay.py SECONDS [SKIP]

Reads from the end of the topic at KAFKA_BROKERS, and prints the time between `ce_time` and the arrival of the
records, without the records of the first SKIP seconds (default: 3). `ce_time` is taken before the command is
decided, hence before its commit: the printed delay is an upper bound of the delay after the commit.
The stack must run on this machine, with the same clock.
"""

import os
import sys
import time
from datetime import datetime

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

PARTITIONS = 16
BATCH = 500


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main():
    seconds = float(sys.argv[1])
    skipped = float(sys.argv[2]) if len(sys.argv) > 2 else 3.0
    topic = os.environ.get("KAFKA_TOPIC", "linkledger.events.v1")
    consumer = Consumer({
        "bootstrap.servers": os.environ["KAFKA_BROKERS"],
        "group.id": "linkledger-delay",
        "enable.auto.commit": False,
        # The default is half a second, if the broker does not end a waiting fetch.
        "fetch.wait.max.ms": 10,
    })
    consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in range(PARTITIONS)])
    delays = []
    begun = time.time()
    while (now := time.time()) < begun + seconds:
        records = consumer.consume(BATCH, timeout=0.01)
        arrived = time.time()
        for record in records:
            if record.error():
                sys.exit(f"error: {record.error()}")
            if now < begun + skipped:
                continue
            ce_time = dict(record.headers())["ce_time"].decode()
            delays.append(arrived - datetime.fromisoformat(ce_time).timestamp())
    consumer.close()
    if not delays:
        sys.exit("error: no record has arrived; check that a load is running and that KAFKA_BROKERS is right")
    delays.sort()
    milliseconds = [f"{1000 * percentile(delays, share):.0f}" for share in (0.5, 0.99, 0.999, 1)]
    print(f"records/s {len(delays) / (seconds - skipped):.0f}  arrival after ce_time: "
          "p50 {} ms  p99 {} ms  p99.9 {} ms  max {} ms".format(*milliseconds))


main()
