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

-- Human clicks and visitors by value, a column for each dimension (core/src/click/dimension_counts.rs). Values after
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

-- Sketches hardly compress: trying would cost time at every update. Partitions inherit the setting.
ALTER TABLE clicks.link_days ALTER COLUMN visitors SET STORAGE EXTERNAL;
ALTER TABLE clicks.link_values
    ALTER COLUMN country SET STORAGE EXTERNAL,
    ALTER COLUMN referrer_host SET STORAGE EXTERNAL,
    ALTER COLUMN browser SET STORAGE EXTERNAL,
    ALTER COLUMN os SET STORAGE EXTERNAL,
    ALTER COLUMN device SET STORAGE EXTERNAL;
