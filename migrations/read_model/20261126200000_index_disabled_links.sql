-- The disabled links of an account, in the order of its list, from the table whose rows the list shows. Only disabled
-- links have an entry. It replaces `redirects_disabled_idx`, which processes of the release before still need.
-- Takes SHARE on links while it is built (PostgreSQL knows no CONCURRENTLY on a partitioned table): reads continue,
-- the projector waits, about 1 s for a million links, and catches up. The release before does not need it.
CREATE INDEX links_disabled_idx
    ON read_model.links (account_id, link_id) WHERE disabled_by IS NOT NULL;
