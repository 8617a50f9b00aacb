-- Events that a projection does not apply.

-- Accounts with an event that could not be applied. The projection continues without the account: its later events
-- wait, by their positions, until the account is released. The log keeps their contents.
-- Rows of a shard are only written under the lock of its checkpoint.
CREATE TABLE read_model.parked_accounts (
    projection text NOT NULL,
    generation integer NOT NULL,
    shard smallint NOT NULL,
    account_id uuid NOT NULL,
    -- The event that could not be applied: the first of the waiting events.
    position bigint NOT NULL,
    event_type text NOT NULL,
    reason text NOT NULL CONSTRAINT parked_accounts_reason_known
        CHECK (reason IN ('unknown_event', 'malformed_payload', 'refused_row')),
    -- The reason in words; for operators.
    detail text NOT NULL,
    parked_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT parked_accounts_pkey PRIMARY KEY (account_id, projection, generation)
);

-- Parked accounts of a shard, in the order of retries.
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

-- Waiting events of an account, in order.
CREATE INDEX parked_events_account_idx
    ON read_model.parked_events (account_id, projection, generation, position);

-- Events that an operator has excluded from a projection for good, from later generations too.
CREATE TABLE read_model.skipped_events (
    projection text NOT NULL,
    shard smallint NOT NULL,
    position bigint NOT NULL,
    -- A restored log may have another event at the position, which is not skipped.
    event_id uuid NOT NULL,
    account_id uuid NOT NULL,
    event_type text NOT NULL,
    operator text NOT NULL,
    -- In the operator's words.
    reason text NOT NULL,
    skipped_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT skipped_events_pkey PRIMARY KEY (projection, shard, position, event_id)
);

-- Skipped events of an account.
CREATE INDEX skipped_events_account_idx
    ON read_model.skipped_events (account_id, projection, position);
