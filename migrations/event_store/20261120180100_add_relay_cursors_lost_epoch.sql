-- The log ended before what had been published of a shard: a restore, or a failover to a standby that
-- lagged, has lost events, and their positions go to others. It is kept, because a few commands
-- later the log is as long as before and nothing shows.
-- Takes ACCESS EXCLUSIVE on 16 rows' table for a moment (no rewrite). The release before does not
-- know the column, and goes on publishing.
SET LOCAL lock_timeout = '2s';
ALTER TABLE event_store.relay_cursors
    -- The epoch of the log in which that was seen; NULL: never. Nothing is published in it any more.
    ADD COLUMN lost_epoch integer;
