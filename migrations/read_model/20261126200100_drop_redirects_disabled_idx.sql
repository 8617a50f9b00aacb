-- Lists no longer read the table of redirects.
-- Takes ACCESS EXCLUSIVE on redirects for a moment. While it waits for a long reader, redirects that are not in memory
-- queue behind it: rather than that it gives up, and `migrate` is to be run again. The release before lists disabled
-- links without the index more slowly.
SET LOCAL lock_timeout = '2s';
DROP INDEX read_model.redirects_disabled_idx;
