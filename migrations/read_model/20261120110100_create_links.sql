-- Projection `links`: the list of an account's links, and a link by its id.
CREATE TABLE read_model.links (
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    -- A UUIDv7 whose milliseconds are `created_at`: its order is the order of the list.
    link_id uuid NOT NULL,
    slug text NOT NULL,
    destination_url text NOT NULL,
    -- Version of the link's stream; the ETag.
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT links_pkey PRIMARY KEY (generation, account_id, link_id)
) PARTITION BY LIST (generation);

CREATE TABLE read_model.links_1 PARTITION OF read_model.links FOR VALUES IN (1);
