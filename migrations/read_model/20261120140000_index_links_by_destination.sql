-- The list of an account's links with a given destination, newest first. By a hash: an address has
-- up to 8,192 bytes, and the hash contains the account, so that no other index answers as well.
-- It costs the projector 4 us and 54 bytes for each link, where the row with its key costs 5 us and
-- 235 bytes (measured in batches of 500).
-- Takes SHARE on links while it is built (PostgreSQL knows no CONCURRENTLY on a partitioned table):
-- reads go on, the projector waits, about 2 s for a million links, and catches up. The release
-- before does not need it.
CREATE INDEX links_destination_idx
    ON read_model.links (hashtextextended(account_id::text || destination_url, 0), link_id);
