-- Statistics of clicks, the partitions of their tables, and clicks on their way to the log.

-- Statistics of links. The account is first in each key, so that the statistics of one account lie together. All
-- clicks of a link are in one partition of the topic, so that a row has one writer. `clicks` counts humans.
CREATE TABLE clicks.link_15min (
    account_id uuid NOT NULL,
    link_id uuid NOT NULL,
    -- Begin of a slot of 15 min.
    slot_start timestamptz NOT NULL,
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    CONSTRAINT link_15min_pkey PRIMARY KEY (account_id, link_id, slot_start)
) PARTITION BY RANGE (slot_start);

CREATE TABLE clicks.link_days (
    account_id uuid NOT NULL,
    link_id uuid NOT NULL,
    -- UTC.
    day date NOT NULL,
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    -- Sketch of distinct visitors (core/clicks/src/sketch.rs); NULL for none.
    visitors bytea,
    CONSTRAINT link_days_pkey PRIMARY KEY (account_id, link_id, day)
) PARTITION BY RANGE (day);

-- Human clicks and visitors by value, a column for each dimension (core/clicks/src/dimension_counts.rs). Values after
-- the first 100 of link, day and dimension are counted together.
CREATE TABLE clicks.link_values (
    account_id uuid NOT NULL,
    link_id uuid NOT NULL,
    day date NOT NULL,
    country bytea NOT NULL,
    referrer_host bytea NOT NULL,
    browser bytea NOT NULL,
    os bytea NOT NULL,
    device bytea NOT NULL,
    CONSTRAINT link_values_pkey PRIMARY KEY (account_id, link_id, day)
) PARTITION BY RANGE (day);

-- Statistics of accounts. Several partitions of the topic have clicks of one account: the partition is in the key,
-- so that a row has one writer, and readers add up.
CREATE TABLE clicks.account_15min (
    account_id uuid NOT NULL,
    slot_start timestamptz NOT NULL,
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    CONSTRAINT account_15min_pkey PRIMARY KEY (account_id, slot_start, partition)
) PARTITION BY RANGE (slot_start);

CREATE TABLE clicks.account_days (
    account_id uuid NOT NULL,
    day date NOT NULL,
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    visitors bytea,
    CONSTRAINT account_days_pkey PRIMARY KEY (account_id, day, partition)
) PARTITION BY RANGE (day);

CREATE TABLE clicks.account_values (
    account_id uuid NOT NULL,
    day date NOT NULL,
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    country bytea NOT NULL,
    referrer_host bytea NOT NULL,
    browser bytea NOT NULL,
    os bytea NOT NULL,
    device bytea NOT NULL,
    CONSTRAINT account_values_pkey PRIMARY KEY (account_id, day, partition)
) PARTITION BY RANGE (day);

-- Sketches hardly compress: trying would cost time at every update. Partitions inherit the setting, which CREATE TABLE
-- takes from Postgres 16 on only.
ALTER TABLE clicks.link_days ALTER COLUMN visitors SET STORAGE EXTERNAL;
ALTER TABLE clicks.link_values
    ALTER COLUMN country SET STORAGE EXTERNAL,
    ALTER COLUMN referrer_host SET STORAGE EXTERNAL,
    ALTER COLUMN browser SET STORAGE EXTERNAL,
    ALTER COLUMN os SET STORAGE EXTERNAL,
    ALTER COLUMN device SET STORAGE EXTERNAL;
ALTER TABLE clicks.account_days ALTER COLUMN visitors SET STORAGE EXTERNAL;
ALTER TABLE clicks.account_values
    ALTER COLUMN country SET STORAGE EXTERNAL,
    ALTER COLUMN referrer_host SET STORAGE EXTERNAL,
    ALTER COLUMN browser SET STORAGE EXTERNAL,
    ALTER COLUMN os SET STORAGE EXTERNAL,
    ALTER COLUMN device SET STORAGE EXTERNAL;

-- Clicks on their way to the log, of which command-api makes events where the log is in this database. Written with
-- the statistics, and never by a recount.

-- First human click of each link, for ever; not in the log yet while announced_at is NULL.
CREATE TABLE clicks.first_clicks (
    account_id uuid NOT NULL,
    link_id uuid NOT NULL,
    clicked_at timestamptz NOT NULL,
    announced_at timestamptz,
    CONSTRAINT first_clicks_pkey PRIMARY KEY (link_id)
);

CREATE INDEX first_clicks_unannounced_idx ON clicks.first_clicks (clicked_at, link_id) WHERE announced_at IS NULL;

-- Clicks by minute of accounts with webhooks that want them, until they are in the log.
CREATE TABLE clicks.link_minutes (
    account_id uuid NOT NULL,
    -- Begin of a UTC minute.
    minute timestamptz NOT NULL,
    link_id uuid NOT NULL,
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    CONSTRAINT link_minutes_pkey PRIMARY KEY (minute, account_id, link_id)
)
-- Room for HOT updates: a row changes with each batch of its minute, and is deleted soon.
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- The only DDL on statistics: partitions by time, whose drop is the retention. The functions run with the rights
-- of the tables' owner; `deploy/postgres/roles.sql` says who may call them.

-- Tables of statistics: time of a partition, and retention in days (NULL: for ever).
CREATE FUNCTION clicks.statistics_tables()
RETURNS TABLE (table_name text, is_weekly boolean, days_kept integer)
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    VALUES ('link_15min', true, 90), ('account_15min', true, 90),
           ('link_days', false, NULL), ('account_days', false, NULL),
           ('link_values', false, 396), ('account_values', false, 396)
$$;

-- Creates the partitions of all tables that have rows of a UTC day, and returns false if all exist. Tables that
-- do not keep the day any more get no partition. Attaching an empty table takes SHARE UPDATE EXCLUSIVE on the
-- parent: neither readers nor writers wait.
CREATE FUNCTION clicks.create_partitions(of_day date)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
SET timezone = 'UTC'
AS $$
DECLARE
    statistics record;
    first_day date;
    end_day date;
    partition text;
    has_created boolean := false;
BEGIN
    IF of_day NOT BETWEEN current_date - 800 AND current_date + 62 THEN
        RAISE EXCEPTION 'no partitions for %: more than 800 days ago, or more than 62 days ahead', of_day
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Two processes may create the same partitions at once.
    PERFORM pg_advisory_xact_lock(hashtext('linkledger clicks partitions'));
    FOR statistics IN SELECT * FROM clicks.statistics_tables() LOOP
        IF statistics.is_weekly THEN
            first_day := date_trunc('week', of_day);
            end_day := first_day + 7;
        ELSE
            first_day := date_trunc('month', of_day);
            end_day := first_day + interval '1 month';
        END IF;
        CONTINUE WHEN end_day <= current_date - statistics.days_kept;
        partition := statistics.table_name || '_' || to_char(first_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('clicks.' || partition) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE clicks.%I (LIKE clicks.%I INCLUDING ALL)
             WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05,
                   autovacuum_analyze_scale_factor = 0.05,
                   toast.autovacuum_vacuum_scale_factor = 0.05)',
            partition, statistics.table_name
        );
        EXECUTE format(
            'ALTER TABLE clicks.%I ATTACH PARTITION clicks.%I FOR VALUES FROM (%L) TO (%L)',
            statistics.table_name, partition, first_day, end_day
        );
        has_created := true;
    END LOOP;
    RETURN has_created;
END
$$;
REVOKE ALL ON FUNCTION clicks.create_partitions(date) FROM PUBLIC;

-- Drops one partition whose days are kept no more, and returns its name; NULL if there is none. The drop takes
-- ACCESS EXCLUSIVE on the parent for a moment: one table for each call, and a lock that is not free within 50 ms
-- is left for a later call (55P03).
CREATE FUNCTION clicks.drop_expired_partition()
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
SET timezone = 'UTC'
AS $$
DECLARE
    expired text;
BEGIN
    SELECT child.relname INTO expired
    FROM clicks.statistics_tables() AS statistics
    JOIN pg_inherits AS inherits
      ON inherits.inhparent = to_regclass('clicks.' || statistics.table_name)
    JOIN pg_class AS child ON child.oid = inherits.inhrelid
    -- A partition that an operator has made has another name.
    CROSS JOIN LATERAL (
        SELECT CASE WHEN child.relname ~ '_[0-9]{8}$'
                    THEN to_date(right(child.relname, 8), 'YYYYMMDD') END AS first_day
    ) AS of
    WHERE statistics.days_kept IS NOT NULL
      AND CASE WHEN statistics.is_weekly THEN of.first_day + 7
               ELSE (of.first_day + interval '1 month')::date END <= current_date - statistics.days_kept
    ORDER BY of.first_day, child.relname
    LIMIT 1;
    IF expired IS NOT NULL THEN
        EXECUTE format('DROP TABLE clicks.%I', expired);
    END IF;
    RETURN expired;
END
$$;
REVOKE ALL ON FUNCTION clicks.drop_expired_partition() FROM PUBLIC;
