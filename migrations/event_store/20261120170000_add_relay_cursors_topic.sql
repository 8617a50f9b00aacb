-- What a cursor refers to (so that a topic that was created anew is noticed), and what operators and
-- the relay say about publishing.
-- Takes ACCESS EXCLUSIVE on 16 rows' table for a moment (no rewrite: the default is a constant). The
-- release before does not know the columns: it publishes while paused, and leaves the offset behind.
SET LOCAL lock_timeout = '2s';
ALTER TABLE event_store.relay_cursors
    -- The Kafka cluster that has the records up to `position`; NULL: not known.
    ADD COLUMN cluster_id text,
    -- Offset of a record at or before `position`; NULL: not known.
    ADD COLUMN record_offset bigint,
    -- The topic was seen to start again while it was published to.
    ADD COLUMN topic_lost boolean NOT NULL DEFAULT false,
    -- Why the owner publishes nothing.
    ADD COLUMN refusal text,
    ADD COLUMN refused_at timestamptz,
    -- Set while an operator wants nothing to be published.
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN paused_by text,
    ADD COLUMN pause_reason text,
    -- The last time that the cursor was set by hand.
    ADD COLUMN refilled_at timestamptz,
    ADD COLUMN refilled_by text,
    ADD COLUMN refilled_from bigint;
