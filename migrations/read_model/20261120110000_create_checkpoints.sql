-- How far each projection is, in each of its generations, and which generation is read.
CREATE SCHEMA IF NOT EXISTS read_model;

CREATE TABLE read_model.projections (
    projection text PRIMARY KEY,
    active_generation integer NOT NULL
);

CREATE TABLE read_model.checkpoints (
    projection text NOT NULL REFERENCES read_model.projections (projection),
    generation integer NOT NULL,
    shard smallint NOT NULL,
    -- The epoch of the log that `position` belongs to.
    epoch integer NOT NULL,
    -- Everything up to it is in the read tables.
    position bigint NOT NULL DEFAULT 0,
    role text NOT NULL
        CONSTRAINT checkpoints_role_known CHECK (role IN ('building', 'live', 'standby')),
    CONSTRAINT checkpoints_pkey PRIMARY KEY (projection, generation, shard)
)
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO read_model.projections (projection, active_generation)
VALUES ('links', 1), ('redirects', 1), ('credits', 1);

INSERT INTO read_model.checkpoints (projection, generation, shard, epoch, role)
SELECT projection, 1, shard, 1, 'live'
FROM read_model.projections CROSS JOIN generate_series(0, 15) AS shard;
