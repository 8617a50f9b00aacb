-- Projections, their generations, and the position of each generation in the log.

CREATE TABLE read_model.projections (
    projection text NOT NULL,
    -- Generation that queries read.
    active_generation integer NOT NULL,
    -- Highest number given out. A number is given out once, even if its generation is dropped: redirect caches and the
    -- records of operators tell generations apart by it.
    highest_generation integer NOT NULL,
    CONSTRAINT projections_pkey PRIMARY KEY (projection)
);

INSERT INTO read_model.projections (projection, active_generation, highest_generation)
VALUES ('links', 1, 1), ('redirects', 1, 1), ('credits', 1, 1);

-- The purpose of each generation: being built, read, kept for a rollback, or being dropped.
CREATE TABLE read_model.generations (
    projection text NOT NULL REFERENCES read_model.projections (projection),
    generation integer NOT NULL,
    phase text NOT NULL CONSTRAINT generations_phase_known CHECK (phase IN (
        'loading', 'catching_up', 'comparing', 'ready', 'active', 'standby', 'dropping'
    )),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Time of the comparison with the log that found no difference, before the generation is read.
    compared_at timestamptz,
    -- Time when another generation became active.
    last_active_at timestamptz,
    CONSTRAINT generations_pkey PRIMARY KEY (projection, generation)
);

-- One generation of a projection is built at a time, and one is read.
CREATE UNIQUE INDEX generations_one_is_built ON read_model.generations (projection)
    WHERE phase IN ('loading', 'catching_up', 'comparing', 'ready');
CREATE UNIQUE INDEX generations_one_is_active ON read_model.generations (projection)
    WHERE phase = 'active';

INSERT INTO read_model.generations (projection, generation, phase)
SELECT projection, active_generation, 'active' FROM read_model.projections;

CREATE TABLE read_model.checkpoints (
    projection text NOT NULL REFERENCES read_model.projections (projection),
    generation integer NOT NULL,
    shard smallint NOT NULL,
    -- Epoch of the log that `position` belongs to.
    epoch integer NOT NULL,
    -- All events up to this position are in the read tables.
    position bigint NOT NULL DEFAULT 0,
    role text NOT NULL CONSTRAINT checkpoints_role_known CHECK (role IN ('building', 'live', 'standby')),
    -- Time since which the projection is paused; NULL: not paused. Kept with the checkpoint, because a writer of the
    -- projection's rows has this row locked: once the pause is committed, the last batch has ended, and no other
    -- begins.
    paused_at timestamptz,
    CONSTRAINT checkpoints_pkey PRIMARY KEY (projection, generation, shard)
)
-- Room for HOT updates: these rows change with every batch.
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO read_model.checkpoints (projection, generation, shard, epoch, role)
SELECT projection, active_generation, shard, 1, 'live'
FROM read_model.projections CROSS JOIN generate_series(0, 15) AS shard;

-- The log that the read tables follow: `event_store.log_meta.log_id`. NULL until `migrate` has read the id from the
-- log, which may be on another server.
CREATE TABLE read_model.followed_log (
    -- Exactly one row.
    singleton boolean NOT NULL DEFAULT true CONSTRAINT followed_log_singleton CHECK (singleton),
    log_id uuid,
    CONSTRAINT followed_log_pkey PRIMARY KEY (singleton)
);

INSERT INTO read_model.followed_log (log_id) VALUES (NULL);
