-- What operators have done to the read models: who, when, why, and what came of it.
-- A command that takes long holds its projection by a row that is not finished: nobody else begins
-- one there. If its process dies, the row is anybody's to end once the lease is over.
CREATE TABLE read_model.operations (
    operation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command text NOT NULL,
    -- NULL: not of one projection.
    projection text REFERENCES read_model.projections (projection),
    -- What else the command was about: an account, a generation.
    subject text,
    operator text NOT NULL,
    database_user text NOT NULL DEFAULT session_user,
    reason text,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Renewed while the command runs.
    lease_expires_at timestamptz,
    finished_at timestamptz,
    outcome text
        CONSTRAINT operations_outcome_known CHECK (outcome IN ('done', 'failed', 'interrupted')),
    -- The outcome in words; for operators.
    detail text,
    CONSTRAINT operations_finished_with_outcome CHECK ((finished_at IS NULL) = (outcome IS NULL)),
    CONSTRAINT operations_running_is_leased CHECK (
        finished_at IS NOT NULL OR (lease_expires_at IS NOT NULL AND projection IS NOT NULL)
    )
);

-- One at a time.
CREATE UNIQUE INDEX operations_running_idx ON read_model.operations (projection)
    WHERE finished_at IS NULL;
