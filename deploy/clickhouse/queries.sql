-- Queries of docs/clickhouse.md, with parameters. FINAL counts a record once that was delivered twice.

-- series: clicks, bots and visitors of an account in each day of a time zone; exact visitors of each UTC day,
-- since a visitor's hash lives for one.
SELECT
    toDate(clicked_at, {timezone:String}) AS day,
    sumIf(count, kind = 'human') AS clicks,
    sumIf(count, kind = 'bot') AS bots,
    uniqExactIf((toDate(clicked_at), visitor), visitor != 0) AS visitors
FROM linkledger.clicks FINAL
WHERE account_id = {account:String}
  AND clicked_at >= {from:DateTime64(3, 'UTC')} AND clicked_at < {to:DateTime64(3, 'UTC')}
GROUP BY day
ORDER BY day;

-- series of a link: the same of one link, in slots of 15 min.
SELECT
    toStartOfInterval(clicked_at, INTERVAL 15 MINUTE) AS slot_start,
    sumIf(count, kind = 'human') AS clicks,
    sumIf(count, kind = 'bot') AS bots
FROM linkledger.clicks FINAL
WHERE account_id = {account:String} AND link_id = {link:String}
  AND clicked_at >= {from:DateTime64(3, 'UTC')} AND clicked_at < {to:DateTime64(3, 'UTC')}
GROUP BY slot_start
ORDER BY slot_start;

-- top countries: human clicks by a detail, most first; an empty value is an unknown one.
SELECT
    country AS value,
    sum(count) AS clicks,
    uniqExactIf((toDate(clicked_at), visitor), visitor != 0) AS visitors
FROM linkledger.clicks FINAL
WHERE account_id = {account:String} AND kind = 'human'
  AND clicked_at >= {from:DateTime64(3, 'UTC')} AND clicked_at < {to:DateTime64(3, 'UTC')}
GROUP BY value
ORDER BY clicks DESC, value
LIMIT {limit:UInt32};

-- top links
SELECT
    link_id AS value,
    sum(count) AS clicks,
    uniqExactIf((toDate(clicked_at), visitor), visitor != 0) AS visitors
FROM linkledger.clicks FINAL
WHERE account_id = {account:String} AND kind = 'human'
  AND clicked_at >= {from:DateTime64(3, 'UTC')} AND clicked_at < {to:DateTime64(3, 'UTC')}
GROUP BY value
ORDER BY clicks DESC, value
LIMIT {limit:UInt32};

-- visitors: exact, and estimated in a fraction of the memory.
SELECT
    uniqExactIf((toDate(clicked_at), visitor), visitor != 0) AS exact,
    uniqCombined64If((toDate(clicked_at), visitor), visitor != 0) AS estimate
FROM linkledger.clicks FINAL
WHERE account_id = {account:String}
  AND clicked_at >= {from:DateTime64(3, 'UTC')} AND clicked_at < {to:DateTime64(3, 'UTC')};

-- bots: share of bots by link.
SELECT
    link_id,
    sum(count) AS requests,
    round(sumIf(count, kind = 'bot') / requests, 3) AS share_of_bots
FROM linkledger.clicks FINAL
WHERE account_id = {account:String}
  AND clicked_at >= {from:DateTime64(3, 'UTC')} AND clicked_at < {to:DateTime64(3, 'UTC')}
GROUP BY link_id
ORDER BY share_of_bots DESC, link_id;

-- gaps: sequences that are missing. A recorder begins with 1, so records before the first one that was read are
-- missing too.
SELECT recorder, partition, max(sequence) - uniqExact(sequence) AS missing
FROM linkledger.clicks
GROUP BY recorder, partition
HAVING missing > 0
ORDER BY recorder, partition;
