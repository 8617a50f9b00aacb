-- The links of an account that have an expiry, in the order of its list. The state `expired` is judged at each read.
-- Takes SHARE on links while it is built (PostgreSQL knows no CONCURRENTLY on a partitioned table): reads continue,
-- the projector waits, and catches up; no link has an expiry yet. The release before does not need it.
CREATE INDEX links_expiring_idx
    ON read_model.links (account_id, link_id) WHERE expires_at IS NOT NULL;
