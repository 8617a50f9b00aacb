-- Whether a suspended account's links may not be followed either.
-- Takes ACCESS EXCLUSIVE on accounts for a moment (no rewrite: the default is a constant). The
-- release before does not know the column and leaves it false, which is what it means there.
-- While it waits for a long reader, every batch of commands queues behind it: rather than that it
-- gives up, and `migrate` is to be run again.
SET LOCAL lock_timeout = '2s';
ALTER TABLE event_store.accounts
    ADD COLUMN redirects_stopped boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT accounts_redirects_stopped_suspended
        CHECK (NOT redirects_stopped OR status = 'suspended') NOT VALID;
