"""Partition of a key, as Kafka's default partitioner chooses it."""

import functools

SHARDS = 16


def murmur2(data):
    """The hash of Kafka's default partitioner, implemented independently of linkledger and librdkafka."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    value = 0x9747B28C ^ len(data)
    words = len(data) // 4 * 4
    for start in range(0, words, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        value = value * m & mask ^ k
    if tail := data[words:]:
        value = (value ^ int.from_bytes(tail, "little")) * m & mask
    value = (value ^ value >> 13) * m & mask
    return value ^ value >> 15


@functools.cache
def partition_of(key):
    return (murmur2(key) & 0x7FFFFFFF) % SHARDS
