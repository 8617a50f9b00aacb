-- Reads the topic into linkledger.clicks. Replace the address of the brokers; TLS and passwords are settings of
-- the server (`<kafka>` in its configuration).
CREATE TABLE IF NOT EXISTS linkledger.clicks_topic
(
    link_id       String,
    account_id    String,
    slug          String,
    clicked_at    String,
    kind          String,
    visitor       Nullable(String),
    country       Nullable(String),
    referrer_host Nullable(String),
    browser       Nullable(String),
    os            Nullable(String),
    device        Nullable(String),
    count         Nullable(UInt32)
)
ENGINE = Kafka
SETTINGS
    kafka_broker_list = 'kafka:9092',
    kafka_topic_list = 'linkledger.clicks.v1',
    kafka_group_name = 'clickhouse.clicks',
    kafka_format = 'JSONEachRow',
    -- Members that later releases add.
    input_format_skip_unknown_fields = 1,
    -- A record that cannot be read becomes a row with an error, instead of stopping the table.
    kafka_handle_error_mode = 'stream';

CREATE MATERIALIZED VIEW IF NOT EXISTS linkledger.clicks_reader TO linkledger.clicks AS
SELECT
    t.account_id AS account_id,
    t.link_id AS link_id,
    parseDateTime64BestEffort(t.clicked_at, 3, 'UTC') AS clicked_at,
    -- /linkledger/recorders/<uuid>
    toUUID(substring(_headers.value[indexOf(_headers.name, 'ce_source')], 23)) AS recorder,
    toUInt8(_partition) AS partition,
    toUInt64(_headers.value[indexOf(_headers.name, 'ce_sequence')]) AS sequence,
    t.slug AS slug,
    CAST(t.kind AS Enum8('human' = 1, 'bot' = 2)) AS kind,
    ifNull(reinterpretAsUInt64(reverse(unhex(t.visitor))), 0) AS visitor,
    ifNull(t.country, '') AS country,
    ifNull(t.referrer_host, '') AS referrer_host,
    ifNull(t.browser, '') AS browser,
    ifNull(t.os, '') AS os,
    ifNull(t.device, '') AS device,
    ifNull(t.count, 1) AS count
FROM linkledger.clicks_topic AS t
WHERE _error = '' AND _headers.value[indexOf(_headers.name, 'ce_type')] = 'linkledger.LinkClicked.v1';

-- Records that could not be read.
CREATE MATERIALIZED VIEW IF NOT EXISTS linkledger.clicks_errors
ENGINE = MergeTree ORDER BY (found_at, partition, position) AS
SELECT _partition AS partition, _offset AS position, _raw_message AS record, _error AS error, now() AS found_at
FROM linkledger.clicks_topic
WHERE _error != '';
