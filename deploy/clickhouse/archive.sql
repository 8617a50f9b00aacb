-- Inserts an archive of clicks (docs/clickhouse.md), from the standard input of clickhouse-client. Safe to repeat.
INSERT INTO linkledger.clicks
    (account_id, link_id, clicked_at, recorder, partition, sequence, slug, kind, visitor, country, referrer_host, browser, os, device, count)
SELECT
    account_id,
    link_id,
    parseDateTime64BestEffort(clicked_at, 3, 'UTC'),
    toUUID(recorder),
    partition,
    sequence,
    slug,
    CAST(kind AS Enum8('human' = 1, 'bot' = 2)),
    ifNull(reinterpretAsUInt64(reverse(unhex(visitor))), 0),
    ifNull(country, ''),
    ifNull(referrer_host, ''),
    ifNull(browser, ''),
    ifNull(os, ''),
    ifNull(device, ''),
    ifNull(count, 1)
FROM input('recorder String, partition UInt8, sequence UInt64, account_id String, link_id String, slug String,
    clicked_at String, kind String, visitor Nullable(String), country Nullable(String), referrer_host Nullable(String),
    browser Nullable(String), os Nullable(String), device Nullable(String), count Nullable(UInt32)')
FORMAT JSONEachRow
