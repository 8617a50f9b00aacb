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
    dimension smallint NOT NULL CHECK (dimension > 0),
    value text COLLATE "C" NOT NULL,
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    clicks bigint NOT NULL CHECK (clicks >= 0),
    visitors bytea,
    CONSTRAINT account_values_pkey PRIMARY KEY (account_id, day, dimension, value, partition)
) PARTITION BY RANGE (day);

-- Sketches hardly compress: trying would cost time at every update. Partitions inherit the setting.
ALTER TABLE clicks.account_days ALTER COLUMN visitors SET STORAGE EXTERNAL;
ALTER TABLE clicks.account_values ALTER COLUMN visitors SET STORAGE EXTERNAL;
