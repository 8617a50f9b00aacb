-- Projection `redirects`: the accounts whose links may not be followed, because an operator has
-- suspended them so.
CREATE TABLE read_model.stopped_accounts (
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    CONSTRAINT stopped_accounts_pkey PRIMARY KEY (generation, account_id)
) PARTITION BY LIST (generation);

CREATE TABLE read_model.stopped_accounts_1 PARTITION OF read_model.stopped_accounts
    FOR VALUES IN (1);
