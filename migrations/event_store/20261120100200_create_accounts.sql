-- The account row is the lock: whoever holds it owns the account's decisions.
CREATE TABLE event_store.accounts (
    account_id uuid PRIMARY KEY,
    -- murmur2(text form of the id) mod 16, fixed for ever.
    shard smallint NOT NULL REFERENCES event_store.log_shards (shard),
    name text NOT NULL,
    balance bigint NOT NULL DEFAULT 0
        CONSTRAINT accounts_balance_not_negative CHECK (balance >= 0),
    -- Number of events in the account's stream.
    version bigint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT accounts_status_known CHECK (status IN ('active', 'suspended')),
    created_at timestamptz NOT NULL
)
-- Room for HOT updates: balance and version change with every batch that charges the account.
WITH (fillfactor = 50);
