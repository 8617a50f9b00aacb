-- Projection `redirects`: the answer of the short host for a slug.

CREATE TABLE read_model.redirects (
    generation integer NOT NULL,
    -- Slug in ASCII lower case.
    slug_key text COLLATE "C" NOT NULL,
    link_id uuid NOT NULL,
    account_id uuid NOT NULL,
    destination_url text NOT NULL,
    -- The short host answers 410 for a link that is not active.
    state text NOT NULL DEFAULT 'active'
        CONSTRAINT redirects_state_known CHECK (state IN ('active', 'disabled', 'deleted')),
    expires_at timestamptz,
    expired_url text,
    CONSTRAINT redirects_pkey PRIMARY KEY (generation, slug_key)
) PARTITION BY LIST (generation);

CREATE TABLE read_model.redirects_1 PARTITION OF read_model.redirects FOR VALUES IN (1);

-- Suspended accounts whose links do not redirect.
CREATE TABLE read_model.stopped_accounts (
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    CONSTRAINT stopped_accounts_pkey PRIMARY KEY (generation, account_id)
) PARTITION BY LIST (generation);

CREATE TABLE read_model.stopped_accounts_1 PARTITION OF read_model.stopped_accounts FOR VALUES IN (1);

-- Entries that redirect caches must drop: slugs of links that were changed, deleted, disabled or enabled, and accounts
-- that were suspended or resumed. Creates have no row, because no cache stores that a link is missing. Independent of
-- generations; rows are kept for ten minutes.
CREATE TABLE read_model.redirect_changes (
    -- Without gaps, and visible in order: taken from the counter below, whose row stays locked until the commit.
    number bigint NOT NULL,
    slug_key text COLLATE "C",
    account_id uuid,
    changed_at timestamptz NOT NULL,
    CONSTRAINT redirect_changes_pkey PRIMARY KEY (number),
    CONSTRAINT redirect_changes_one_subject CHECK (num_nonnulls(slug_key, account_id) = 1)
);

CREATE TABLE read_model.redirect_change_counter (
    -- Exactly one row.
    singleton boolean NOT NULL DEFAULT true CONSTRAINT redirect_change_counter_singleton CHECK (singleton),
    last_number bigint NOT NULL,
    CONSTRAINT redirect_change_counter_pkey PRIMARY KEY (singleton)
);

INSERT INTO read_model.redirect_change_counter (last_number) VALUES (0);
