-- What the short host answers for a slug: a redirect, or that it is gone.
-- Takes ACCESS EXCLUSIVE on redirects for a moment (no rewrite: the default is a constant). The
-- release before writes links that can only be active. While it waits for a long reader, every
-- redirect queues behind it: rather than that it gives up, and `migrate` is to be run again.
SET LOCAL lock_timeout = '2s';
ALTER TABLE read_model.redirects
    ADD COLUMN state text NOT NULL DEFAULT 'active'
        CONSTRAINT redirects_state_known CHECK (state IN ('active', 'disabled', 'deleted'));
