-- What the last verification of each generation has come to: the command is a process of its own,
-- and what alerts look at is shown by the projectors, which read it here. A new table: locks
-- nothing. The release before does not use it.
CREATE TABLE read_model.verifications (
    projection text NOT NULL REFERENCES read_model.projections (projection),
    generation integer NOT NULL,
    verified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    operator text NOT NULL,
    -- Of the log, that its rows were recomputed from.
    events bigint NOT NULL,
    -- Rows that are wrong, after a repair if there was one.
    mismatches bigint NOT NULL,
    CONSTRAINT verifications_pkey PRIMARY KEY (projection, generation)
);
