-- Who has which slug, in the whole service. A committed row is never deleted: the slug of a deleted
-- link is not given out again.
CREATE TABLE event_store.slugs (
    -- ASCII lower case; slugs are compared by it.
    slug_folded text COLLATE "C" PRIMARY KEY,
    slug text NOT NULL,
    shard smallint NOT NULL,
    link_id uuid NOT NULL
);
