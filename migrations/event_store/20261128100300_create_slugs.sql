-- Names and expiries of links. The tables are written with the events, follow from them, and are checked by
-- `log verify`.

-- Slugs, unique in the whole service. A row stays when its link is deleted: the slug is never given out again.
CREATE TABLE event_store.slugs (
    -- Slug in ASCII lower case; slugs are compared by it.
    slug_key text COLLATE "C" NOT NULL,
    slug text NOT NULL,
    shard smallint NOT NULL,
    link_id uuid NOT NULL,
    CONSTRAINT slugs_pkey PRIMARY KEY (slug_key)
);

-- External ids, unique among the links of an account that are not deleted. Written under the account's lock.
CREATE TABLE event_store.external_ids (
    account_id uuid NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    link_id uuid NOT NULL,
    CONSTRAINT external_ids_pkey PRIMARY KEY (account_id, external_id)
);

-- Links that will expire, or have expired and are not in the log yet as such. Written under the account's lock.
CREATE TABLE event_store.link_expiries (
    link_id uuid NOT NULL,
    account_id uuid NOT NULL REFERENCES event_store.accounts (account_id),
    expires_at timestamptz NOT NULL,
    CONSTRAINT link_expiries_pkey PRIMARY KEY (link_id)
);

CREATE INDEX link_expiries_due_idx ON event_store.link_expiries (expires_at, link_id);
