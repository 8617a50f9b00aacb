"""Publishes earlier records again, byte for byte, as a relay does that has lost its lease without noticing.
Prints the number of records.

usage: repeat_records.py, with KAFKA_BROKERS and KAFKA_TOPIC in the environment
"""

import os

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

PER_PARTITION_MAX = 100
SILENCE_MAX_S = 10
BROKERS = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
TOPIC = os.environ["KAFKA_TOPIC"]


def earliest(consumer, partition):
    _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=SILENCE_MAX_S)
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING)])
    return consumer.consume(min(end, PER_PARTITION_MAX), timeout=SILENCE_MAX_S) if end else []


def main():
    consumer = Consumer({**BROKERS, "group.id": "repeat", "enable.auto.commit": False})
    producer = Producer(BROKERS)
    failed = []
    count = 0
    for partition in sorted(consumer.list_topics(TOPIC, timeout=SILENCE_MAX_S).topics[TOPIC].partitions):
        for message in earliest(consumer, partition):
            count += 1
            producer.produce(
                TOPIC,
                message.value(),
                message.key(),
                partition,
                timestamp=message.timestamp()[1],
                headers=message.headers(),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
    assert producer.flush(SILENCE_MAX_S) == 0 and not failed, f"not repeated: {failed}"
    consumer.close()
    print(count)


main()
