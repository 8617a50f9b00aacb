-- What the short host answers for a slug: a redirect, or that it is gone.
-- Takes ACCESS EXCLUSIVE on redirects for a moment (no rewrite: the default is a constant). The
-- release before writes links that can only be active.
ALTER TABLE read_model.redirects
    ADD COLUMN state text NOT NULL DEFAULT 'active'
        CONSTRAINT redirects_state_known CHECK (state IN ('active', 'disabled', 'deleted'));
