-- Accounts of which an event could not be applied, and what waits behind that event. A projection
-- goes on without the account: its later events wait here, by their places in the log, until the
-- account is released. The log keeps their contents.
-- Rows of a shard are written under the lock of its checkpoint only. The release before ends at
-- such an event and knows nothing of these tables.
CREATE TABLE read_model.parked_accounts (
    projection text NOT NULL,
    generation integer NOT NULL,
    shard smallint NOT NULL,
    account_id uuid NOT NULL,
    -- The event that could not be applied: the first of those that wait.
    position bigint NOT NULL,
    event_type text NOT NULL,
    reason text NOT NULL
        CONSTRAINT parked_accounts_reason_known
        CHECK (reason IN ('unknown_event', 'malformed_payload', 'refused_row')),
    -- The reason in words; for operators.
    detail text NOT NULL,
    parked_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT parked_accounts_pkey PRIMARY KEY (account_id, projection, generation)
);

-- Who is parked in a shard, in turn.
CREATE INDEX parked_accounts_shard_idx
    ON read_model.parked_accounts (shard, projection, generation, account_id);

CREATE TABLE read_model.parked_events (
    projection text NOT NULL,
    generation integer NOT NULL,
    shard smallint NOT NULL,
    position bigint NOT NULL,
    account_id uuid NOT NULL,
    CONSTRAINT parked_events_pkey PRIMARY KEY (projection, generation, shard, position)
);

-- What waits of one account, in order.
CREATE INDEX parked_events_account_idx
    ON read_model.parked_events (account_id, projection, generation, position);
