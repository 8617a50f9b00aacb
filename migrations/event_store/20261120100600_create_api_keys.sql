-- API keys. The secret itself is stored nowhere: it is random enough for a plain hash.
CREATE TABLE event_store.api_keys (
    key_id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES event_store.accounts (account_id),
    sha256 bytea NOT NULL CONSTRAINT api_keys_sha256_unique UNIQUE,
    -- First characters of the secret, to recognise it by.
    prefix text NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    -- Coarse: written at most every few minutes.
    last_used_at timestamptz
);

CREATE INDEX api_keys_account_id_idx ON event_store.api_keys (account_id);
