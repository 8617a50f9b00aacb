-- Records for operators: their commands, the results of verifications, and the state of the projectors.

-- Operators' commands on read models: operator, time, reason and outcome.
-- A long command holds its projection by a row that is not finished, and no other command begins there. Its session has
-- the advisory lock of the row: if the process dies, so does the session, and the next command ends the row.
CREATE TABLE read_model.operations (
    operation_id bigint GENERATED ALWAYS AS IDENTITY,
    command text NOT NULL,
    -- NULL: the command is not about one projection.
    projection text REFERENCES read_model.projections (projection),
    -- Account, generation or first day that the command is about, or `clicks`.
    subject text,
    operator text NOT NULL,
    database_user text NOT NULL DEFAULT session_user,
    reason text,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    outcome text CONSTRAINT operations_outcome_known CHECK (outcome IN ('done', 'failed', 'interrupted')),
    -- The outcome in words.
    detail text,
    CONSTRAINT operations_pkey PRIMARY KEY (operation_id),
    CONSTRAINT operations_finished_with_outcome CHECK ((finished_at IS NULL) = (outcome IS NULL)),
    CONSTRAINT operations_running_has_projection CHECK (finished_at IS NOT NULL OR projection IS NOT NULL)
);

-- One running command for each projection.
CREATE UNIQUE INDEX operations_running_idx ON read_model.operations (projection)
    WHERE finished_at IS NULL;

-- Last verification of each generation. The command is a process of its own; the projectors read the result here, and
-- show it to alerts.
CREATE TABLE read_model.verifications (
    projection text NOT NULL REFERENCES read_model.projections (projection),
    generation integer NOT NULL,
    verified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Number of wrong rows, after the repair if there was one.
    mismatches bigint NOT NULL,
    CONSTRAINT verifications_pkey PRIMARY KEY (projection, generation)
);

-- Claim of each shard, renewed once a second by the projector that applies its events, with its progress there. A
-- claim that was not renewed for 3 s is free. Claims share the work; that nothing is applied twice follows from the
-- checkpoints alone.
CREATE TABLE read_model.claims (
    shard smallint CONSTRAINT claims_pkey PRIMARY KEY,
    -- Process that owns the shard, by a number of its own; NULL: none, or it has given the shard up.
    owner_id uuid,
    -- Name of the last owner, by host and process id, and its release.
    owner text,
    version text,
    renewed_at timestamptz,
    -- Rate of each projection by its name, between the last two renewals.
    events_per_second jsonb NOT NULL DEFAULT '{}',
    -- Last failure of any owner; kept after the recovery.
    last_error text CONSTRAINT claims_last_error_short CHECK (char_length(last_error) <= 1000),
    last_error_at timestamptz,
    CONSTRAINT claims_last_error_dated CHECK ((last_error IS NULL) = (last_error_at IS NULL)),
    CONSTRAINT claims_owner_named CHECK (owner_id IS NULL OR
        (owner IS NOT NULL AND version IS NOT NULL AND renewed_at IS NOT NULL))
)
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO read_model.claims (shard) SELECT generate_series(0, 15);
