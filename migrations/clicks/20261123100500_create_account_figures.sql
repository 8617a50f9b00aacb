-- Figures of accounts. Several partitions of the topic have clicks of one account: the partition is in the key,
-- so that a row has one writer, and readers add up.
CREATE TABLE clicks.account_quarters (
    account_id uuid NOT NULL,
    quarter timestamptz NOT NULL,
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    clicks bigint NOT NULL CHECK (clicks >= 0),
    bots bigint NOT NULL CHECK (bots >= 0),
    CONSTRAINT account_quarters_pkey PRIMARY KEY (account_id, quarter, partition)
) PARTITION BY RANGE (quarter);

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

-- Sketches hardly compress: trying would cost time at every update. Partitions inherit the setting.
ALTER TABLE clicks.account_days ALTER COLUMN visitors SET STORAGE EXTERNAL;
ALTER TABLE clicks.account_values
    ALTER COLUMN country SET STORAGE EXTERNAL,
    ALTER COLUMN referrer_host SET STORAGE EXTERNAL,
    ALTER COLUMN browser SET STORAGE EXTERNAL,
    ALTER COLUMN os SET STORAGE EXTERNAL,
    ALTER COLUMN device SET STORAGE EXTERNAL;
