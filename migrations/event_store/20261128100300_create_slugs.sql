-- Names of links. Both tables are written with the events, follow from them, and are checked by `log verify`.

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
