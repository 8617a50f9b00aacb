-- The link of an account with a given external id. As in `links_destination_idx`, the hash contains the account, so
-- that no other index answers as well. Only links with an external id have an entry.
-- Takes SHARE on links while it is built (PostgreSQL knows no CONCURRENTLY on a partitioned table): reads continue,
-- the projector waits, and catches up; no link has an external id yet. The release before does not need it.
CREATE INDEX links_external_id_idx
    ON read_model.links (hashtextextended(account_id::text || external_id, 0), link_id)
    WHERE external_id IS NOT NULL;
