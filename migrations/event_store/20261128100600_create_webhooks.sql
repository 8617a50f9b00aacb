-- Webhooks of accounts and of operators. The log is their queue: a cursor stands before the events that are not
-- delivered, kept as a delivery, or known to be unwanted.

-- Rows are written with their events, follow from them, and are checked by `log verify`. A deleted webhook has no row.
-- The secret is stored nowhere: it is derived from a master key, the id and the generation.
CREATE TABLE event_store.webhooks (
    webhook_id uuid NOT NULL,
    account_id uuid NOT NULL REFERENCES event_store.accounts (account_id),
    url text NOT NULL,
    -- Types of messages; none: all but link.clicks.
    types text[] NOT NULL,
    description text,
    enabled boolean NOT NULL,
    -- Reason of the dispatcher, if it has disabled the webhook.
    disabled_reason text,
    -- True if the next message waits for the answer to the one before.
    in_order boolean NOT NULL,
    -- True for an operator's, which receives the events of all accounts.
    all_accounts boolean NOT NULL,
    secret_key_id text NOT NULL,
    secret_generation integer NOT NULL,
    -- Secret before the last rotation, which signs too until then.
    previous_key_id text,
    previous_generation integer,
    previous_valid_until timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT webhooks_pkey PRIMARY KEY (webhook_id),
    CONSTRAINT webhooks_reason_of_disabled CHECK (disabled_reason IS NULL OR NOT enabled),
    CONSTRAINT webhooks_previous_secret_whole
        CHECK (num_nulls(previous_key_id, previous_generation, previous_valid_until) IN (0, 3))
);

CREATE INDEX webhooks_account_id_idx ON event_store.webhooks (account_id, webhook_id);

CREATE INDEX webhooks_of_operators_idx ON event_store.webhooks (webhook_id) WHERE all_accounts;

-- Accounts whose clicks are counted by minute.
CREATE INDEX webhooks_of_clicks_idx ON event_store.webhooks (account_id)
    WHERE enabled AND 'link.clicks' = ANY (types);

-- Places in the log: of an owner's webhook in the shard of its account, of an operator's in each shard. A cursor only
-- moves forward. Cursors and log are restored together, so no epoch is stored; a process that has lived through a
-- restore moves none, since it names the place that it has left and the event that it has reached.
CREATE TABLE event_store.webhook_cursors (
    webhook_id uuid NOT NULL REFERENCES event_store.webhooks (webhook_id) ON DELETE CASCADE,
    shard smallint NOT NULL CONSTRAINT webhook_cursors_shard_range CHECK (shard BETWEEN 0 AND 15),
    -- True for a replay of past events, which runs beside the live cursor and is deleted at its end.
    is_replay boolean NOT NULL,
    position bigint NOT NULL,
    -- Version of the last event of the account's own stream before the cursor; 0 for an operator's webhook.
    version bigint NOT NULL,
    -- Last position of a replay.
    until_position bigint,
    CONSTRAINT webhook_cursors_pkey PRIMARY KEY (webhook_id, shard, is_replay),
    CONSTRAINT webhook_cursors_end_of_replay CHECK (is_replay = (until_position IS NOT NULL))
)
-- Room for HOT updates: a cursor moves with each page of its webhook.
WITH (fillfactor = 50);

-- Health of the receiver. The row is made with the webhook.
CREATE TABLE event_store.webhook_health (
    webhook_id uuid NOT NULL REFERENCES event_store.webhooks (webhook_id) ON DELETE CASCADE,
    -- Set while the receiver is ill: the cursors stand still, and one message at a time is a probe.
    ill_since timestamptz,
    probes integer NOT NULL DEFAULT 0,
    next_probe_at timestamptz,
    -- First failed attempt since the last success, ill or refused, moved by the time in which nobody tried.
    failing_since timestamptz,
    -- Hours after failing_since of the last notice to operators: 1 or 24; 0 before the first.
    notified_hours smallint NOT NULL DEFAULT 0,
    -- Set while an operator must act: the dispatcher lacks the master key, or cannot read the next event.
    blocked_since timestamptz,
    last_success_at timestamptz,
    last_attempt_at timestamptz,
    -- Status of HTTP; NULL if the last attempt had no answer.
    last_status smallint,
    last_error text,
    CONSTRAINT webhook_health_pkey PRIMARY KEY (webhook_id)
)
-- Room for HOT updates: a row changes with each page of its webhook.
WITH (fillfactor = 50);

-- Messages with a schedule of their own: refused ones and tests; the last ones that failed, and that were delivered.
CREATE TABLE event_store.webhook_deliveries (
    -- Begins with the time of the first attempt.
    delivery_id uuid NOT NULL,
    webhook_id uuid NOT NULL
        CONSTRAINT webhook_deliveries_webhook_known
        REFERENCES event_store.webhooks (webhook_id) ON DELETE CASCADE,
    event_id uuid NOT NULL,
    message_type text NOT NULL,
    -- Place of the event in the log; NULL for a test.
    shard smallint,
    position bigint,
    state text NOT NULL
        CONSTRAINT webhook_deliveries_state_known CHECK (state IN ('waiting', 'failed', 'delivered')),
    attempts integer NOT NULL,
    next_attempt_at timestamptz,
    last_attempt_at timestamptz,
    last_status smallint,
    last_error text,
    -- Beginning of the last answer's body.
    response text,
    created_at timestamptz NOT NULL,
    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (delivery_id),
    CONSTRAINT webhook_deliveries_event_unique UNIQUE (webhook_id, event_id),
    CONSTRAINT webhook_deliveries_place_whole CHECK ((shard IS NULL) = (position IS NULL)),
    -- A waiting one without a time would wait for ever.
    CONSTRAINT webhook_deliveries_waiting_scheduled CHECK (state <> 'waiting' OR next_attempt_at IS NOT NULL)
);

-- Lists, counts and trimming read one state at a time.
CREATE INDEX webhook_deliveries_state_idx ON event_store.webhook_deliveries (webhook_id, state, delivery_id);

CREATE INDEX webhook_deliveries_due_idx ON event_store.webhook_deliveries (webhook_id, next_attempt_at)
    WHERE state = 'waiting';

-- The process that sends: a lease, which only avoids that two of them send the same.
CREATE TABLE event_store.webhook_dispatcher (
    -- Exactly one row.
    id boolean NOT NULL DEFAULT true CONSTRAINT webhook_dispatcher_singleton CHECK (id),
    owner text,
    expires_at timestamptz,
    CONSTRAINT webhook_dispatcher_pkey PRIMARY KEY (id),
    CONSTRAINT webhook_dispatcher_lease_whole CHECK ((owner IS NULL) = (expires_at IS NULL))
)
-- Room for HOT updates: the row changes each second.
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO event_store.webhook_dispatcher DEFAULT VALUES;
