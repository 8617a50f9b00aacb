-- The links of an account with given tags. Generation and account are one more element of the indexed array, which no
-- tag equals, since tags have no spaces: the index intersects the links of the account with those of each tag. Only
-- links with tags have an entry.
-- Without a list of pending entries, which each search would read as a whole.
-- Takes SHARE on links while it is built (PostgreSQL knows no CONCURRENTLY on a partitioned table): reads continue,
-- the projector waits, and catches up; no link has tags yet. The release before does not need it.
CREATE INDEX links_tags_idx
    ON read_model.links
    USING gin (array_append(tags, generation::text || ' ' || account_id::text)) WITH (fastupdate = off)
    WHERE tags IS NOT NULL;
