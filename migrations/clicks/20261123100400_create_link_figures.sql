-- Figures of links. The account is first in each key, so that the figures of one account lie together. All
-- clicks of a link are in one partition of the topic, so that a row has one writer. `clicks` counts humans.
CREATE TABLE clicks.link_quarters (
    account_id uuid NOT NULL,
    link_id uuid NOT NULL,
    -- Begin of a quarter of an hour.
    quarter timestamptz NOT NULL,
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    CONSTRAINT link_quarters_pkey PRIMARY KEY (account_id, link_id, quarter)
) PARTITION BY RANGE (quarter);

CREATE TABLE clicks.link_days (
    account_id uuid NOT NULL,
    link_id uuid NOT NULL,
    -- UTC.
    day date NOT NULL,
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    -- Sketch of distinct visitors (core/src/click/sketch.rs); NULL for none.
    visitors bytea,
    CONSTRAINT link_days_pkey PRIMARY KEY (account_id, link_id, day)
) PARTITION BY RANGE (day);

-- Human clicks by value of a dimension.
CREATE TABLE clicks.link_values (
    account_id uuid NOT NULL,
    link_id uuid NOT NULL,
    day date NOT NULL,
    -- 1 country, 2 referrer host, 3 browser, 4 operating system, 5 device.
    dimension smallint NOT NULL CHECK (dimension > 0),
    -- '' for clicks without a value, '*' for the values after the first 100 of link, day and dimension.
    value text COLLATE "C" NOT NULL,
    clicks bigint NOT NULL CHECK (clicks >= 0),
    visitors bytea,
    CONSTRAINT link_values_pkey PRIMARY KEY (account_id, link_id, day, dimension, value)
) PARTITION BY RANGE (day);

-- Sketches hardly compress: trying would cost time at every update. Partitions inherit the setting.
ALTER TABLE clicks.link_days ALTER COLUMN visitors SET STORAGE EXTERNAL;
ALTER TABLE clicks.link_values ALTER COLUMN visitors SET STORAGE EXTERNAL;
