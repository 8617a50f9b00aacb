-- Processes whose Kafka producer may still have records on their way: noted before a producer is
-- made, struck off when it is gone. A refill waits for them.
-- A new table: nothing is locked. Producers of the release before are not noted.
CREATE TABLE event_store.relay_producers (
    owner text PRIMARY KEY,
    made_at timestamptz NOT NULL,
    -- Its producer is gone, but requests were unanswered: by then none can arrive any more.
    settles_at timestamptz
);
