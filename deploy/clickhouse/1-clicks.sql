-- Table of clicks in ClickHouse (docs/clickhouse.md). Safe to repeat.
CREATE DATABASE IF NOT EXISTS linkledger;

-- One row for each record of the topic. The Kafka engine delivers at least once, and the recorder may too: rows of
-- one recorder, partition and sequence are the same record, and ReplacingMergeTree keeps one of them when it
-- merges. Until then only FINAL drops the repeats. Account, link and time come first, because queries ask by them.
-- An empty text is an unknown detail; visitor 0 is none.
CREATE TABLE IF NOT EXISTS linkledger.clicks
(
    account_id    LowCardinality(String),
    link_id       String CODEC(ZSTD),
    clicked_at    DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    recorder      UUID,
    partition     UInt8,
    sequence      UInt64 CODEC(Delta, ZSTD),
    slug          String CODEC(ZSTD),
    kind          Enum8('human' = 1, 'bot' = 2),
    visitor       UInt64,
    country       LowCardinality(String),
    referrer_host LowCardinality(String),
    browser       LowCardinality(String),
    os            LowCardinality(String),
    device        LowCardinality(String),
    count         UInt32
)
ENGINE = ReplacingMergeTree
-- Repeats have the same time, so they are in one partition of the table and can be merged.
PARTITION BY toYYYYMM(clicked_at)
ORDER BY (account_id, link_id, clicked_at, recorder, partition, sequence);
