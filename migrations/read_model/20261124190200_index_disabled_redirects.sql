-- The disabled links of an account, in the order of its list. Only disabled links have an entry, of 67 bytes.
-- Takes SHARE on redirects while it is built (PostgreSQL knows no CONCURRENTLY on a partitioned table): reads
-- continue, the projector waits, about 1 s for a million links, and catches up. The release before does not need it.
CREATE INDEX redirects_disabled_idx
    ON read_model.redirects (account_id, link_id) WHERE state = 'disabled';
