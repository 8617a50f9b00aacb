-- Accounts, their API keys, the admin keys of operators, and console sessions. Accounts and API keys are written with
-- their events, follow from them, and are checked by `log verify`: all but the hash, the prefix and the last use of a
-- key.

-- All substrings of three characters of a text, in lower case: an index on them finds parts of texts. The collation is
-- named, since a column's own would lower other letters than that of a searched text.
CREATE FUNCTION event_store.trigrams(text) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT substr(lower_case, n, 3)), '{}')
    FROM lower($1 COLLATE pg_catalog."default") AS lower_case,
         generate_series(1, length(lower_case) - 2) AS n
$$;

-- The row of an account is its lock: the session that holds it decides the commands of the account.
CREATE TABLE event_store.accounts (
    account_id uuid NOT NULL,
    -- murmur2(text form of the id) mod 16, fixed for ever.
    shard smallint NOT NULL REFERENCES event_store.log_shards (shard),
    name text NOT NULL,
    -- Id of the account in the seller's system.
    external_id text COLLATE "C",
    -- Idempotency key of the request that created the account, if it had one: keys of creations are unique in the
    -- service, since there is no account yet.
    creation_key text COLLATE "C",
    -- Thresholds of the balance, the lowest first: a charge that crosses one downwards records it.
    low_balance_at bigint[] NOT NULL DEFAULT '{}'
        CONSTRAINT accounts_low_balance_at_few CHECK (cardinality(low_balance_at) <= 5),
    balance bigint NOT NULL DEFAULT 0 CONSTRAINT accounts_balance_not_negative CHECK (balance >= 0),
    -- Number of events in the account's stream.
    version bigint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT accounts_status_known CHECK (status IN ('active', 'suspended')),
    -- True if the links of the suspended account do not redirect.
    redirects_stopped boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    CONSTRAINT accounts_pkey PRIMARY KEY (account_id),
    CONSTRAINT accounts_external_id_unique UNIQUE (external_id),
    CONSTRAINT accounts_creation_key_unique UNIQUE (creation_key),
    CONSTRAINT accounts_redirects_stopped_suspended CHECK (NOT redirects_stopped OR status = 'suspended')
)
-- Room for HOT updates: balance and version change with every commit group that charges the account.
WITH (fillfactor = 50);

-- Parts of names and external ids. Changes of balances write no index.
CREATE INDEX accounts_search_idx ON event_store.accounts
    USING gin (event_store.trigrams(name || ' ' || coalesce(external_id, '')));

-- The few suspended accounts, for lists of them.
CREATE INDEX accounts_suspended_idx ON event_store.accounts (account_id) WHERE status = 'suspended';

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

-- Keys of operators for the admin API. The secret itself is stored nowhere.
CREATE TABLE event_store.admin_keys (
    key_id uuid NOT NULL,
    sha256 bytea NOT NULL,
    -- First characters of the secret, by which people recognise it.
    prefix text NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL,
    -- Name of the operator.
    created_by text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    CONSTRAINT admin_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT admin_keys_sha256_unique UNIQUE (sha256),
    CONSTRAINT admin_keys_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);

-- Codes that open the console of an account's owner, each once within a minute. The exchange of its code deletes
-- a row, and each new session deletes some that have expired. The code itself is stored nowhere.
CREATE TABLE event_store.console_sessions (
    code_sha256 bytea NOT NULL,
    account_id uuid NOT NULL
        CONSTRAINT console_sessions_account_known REFERENCES event_store.accounts (account_id),
    -- Scopes of the API key for which the code is exchanged.
    scopes text[] NOT NULL,
    -- Address to which the console shows a way back.
    return_url text,
    -- Admin key.
    opened_by uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT console_sessions_pkey PRIMARY KEY (code_sha256)
);

CREATE INDEX console_sessions_expires_at_idx ON event_store.console_sessions (expires_at);
