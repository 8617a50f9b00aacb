-- Events that an operator has decided to leave out of a projection, for good: in each of its
-- generations, those that are built later among them. No release before uses the table.
CREATE TABLE read_model.skipped_events (
    projection text NOT NULL,
    shard smallint NOT NULL,
    position bigint NOT NULL,
    -- A log that was restored may have another event at that place, which is not left out.
    event_id uuid NOT NULL,
    account_id uuid NOT NULL,
    event_type text NOT NULL,
    operator text NOT NULL,
    -- Why, in the operator's words.
    reason text NOT NULL,
    skipped_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT skipped_events_pkey PRIMARY KEY (projection, shard, position, event_id)
);

-- What is left out of an account.
CREATE INDEX skipped_events_account_idx
    ON read_model.skipped_events (account_id, projection, position);
