-- What a redirect cache must forget: slugs of links that were changed, deleted, disabled or
-- enabled, and accounts that were suspended or resumed. Creations are not here: nobody caches that
-- there is nothing. Independent of generations; rows are kept for ten minutes.
CREATE TABLE read_model.redirect_changes (
    -- Without gaps, and visible in order: taken from the counter below, whose row is held to commit.
    number bigint PRIMARY KEY,
    slug_folded text COLLATE "C",
    account_id uuid,
    changed_at timestamptz NOT NULL,
    CONSTRAINT redirect_changes_one_subject CHECK (num_nonnulls(slug_folded, account_id) = 1)
);

CREATE TABLE read_model.redirect_change_counter (
    -- One row.
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    last_number bigint NOT NULL
);

INSERT INTO read_model.redirect_change_counter (last_number) VALUES (0);
