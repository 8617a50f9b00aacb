-- What each generation of a read model is for, beside its checkpoints: built, served, kept to go
-- back to, or dropped. A new table: locks nothing. The release before knows one generation.
CREATE TABLE read_model.generations (
    projection text NOT NULL REFERENCES read_model.projections (projection),
    generation integer NOT NULL,
    phase text NOT NULL CONSTRAINT generations_phase_known CHECK (phase IN (
        'loading', 'catching_up', 'comparing', 'ready', 'active', 'standby', 'dropping'
    )),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When it was found to say what it should, before it is served.
    compared_at timestamptz,
    -- When it ceased to be the active one.
    last_active_at timestamptz,
    CONSTRAINT generations_pkey PRIMARY KEY (projection, generation)
);

-- Of a read model one generation is built at a time, and one is served.
CREATE UNIQUE INDEX generations_one_is_built ON read_model.generations (projection)
    WHERE phase IN ('loading', 'catching_up', 'comparing', 'ready');
CREATE UNIQUE INDEX generations_one_is_active ON read_model.generations (projection)
    WHERE phase = 'active';

INSERT INTO read_model.generations (projection, generation, phase)
SELECT projection, active_generation, 'active' FROM read_model.projections;
