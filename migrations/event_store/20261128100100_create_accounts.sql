-- Accounts and their API keys.

-- The row of an account is its lock: the session that holds it decides the commands of the account.
CREATE TABLE event_store.accounts (
    account_id uuid NOT NULL,
    -- murmur2(text form of the id) mod 16, fixed for ever.
    shard smallint NOT NULL REFERENCES event_store.log_shards (shard),
    name text NOT NULL,
    balance bigint NOT NULL DEFAULT 0 CONSTRAINT accounts_balance_not_negative CHECK (balance >= 0),
    -- Number of events in the account's stream.
    version bigint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT accounts_status_known CHECK (status IN ('active', 'suspended')),
    -- True if the links of the suspended account do not redirect.
    redirects_stopped boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    CONSTRAINT accounts_pkey PRIMARY KEY (account_id),
    CONSTRAINT accounts_redirects_stopped_suspended CHECK (NOT redirects_stopped OR status = 'suspended')
)
-- Room for HOT updates: balance and version change with every batch that charges the account.
WITH (fillfactor = 50);

-- The secret itself is stored nowhere: it is random enough for a plain hash.
CREATE TABLE event_store.api_keys (
    key_id uuid NOT NULL,
    account_id uuid NOT NULL REFERENCES event_store.accounts (account_id),
    sha256 bytea NOT NULL,
    -- First characters of the secret, by which people recognise it.
    prefix text NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    -- Coarse: written at most every few minutes.
    last_used_at timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_keys_sha256_unique UNIQUE (sha256)
)
-- Room for updates of last_used_at: an update within its page writes no index.
WITH (fillfactor = 80);

CREATE INDEX api_keys_account_id_idx ON event_store.api_keys (account_id);
