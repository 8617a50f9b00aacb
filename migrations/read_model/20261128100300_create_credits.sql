-- Projection `credits`: the balance of an account and the entries of its ledger.

CREATE TABLE read_model.credit_balances (
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    balance bigint NOT NULL,
    -- Version of the account's stream after which this is the balance.
    version bigint NOT NULL,
    CONSTRAINT credit_balances_pkey PRIMARY KEY (generation, account_id)
) PARTITION BY LIST (generation);

-- Room for HOT updates: a balance changes with every batch that charges the account.
CREATE TABLE read_model.credit_balances_1 PARTITION OF read_model.credit_balances
    FOR VALUES IN (1) WITH (fillfactor = 50);

CREATE TABLE read_model.credit_entries (
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    -- Version of the account's stream: the order of the ledger.
    version bigint NOT NULL,
    -- UUID of the event; shown as `ent_…`.
    entry_id uuid NOT NULL,
    type text NOT NULL
        CONSTRAINT credit_entries_type_known
            CHECK (type IN ('grant', 'charge', 'adjustment', 'refund', 'revocation')),
    -- Change of the balance; negative for a charge and a revocation.
    amount bigint NOT NULL,
    balance_after bigint NOT NULL,
    -- Link that a charge paid for, or whose charge a refund gives back.
    link_id uuid,
    -- Text of a grant or an adjustment for the owner.
    description text,
    -- Entry of the charge that a refund gives back.
    refunds uuid,
    created_at timestamptz NOT NULL,
    CONSTRAINT credit_entries_pkey PRIMARY KEY (generation, account_id, version)
) PARTITION BY LIST (generation);

CREATE TABLE read_model.credit_entries_1 PARTITION OF read_model.credit_entries FOR VALUES IN (1);
