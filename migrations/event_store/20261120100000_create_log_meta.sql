-- What is true of the log as a whole. First migration: nothing else runs yet.
CREATE SCHEMA IF NOT EXISTS event_store;

CREATE TABLE event_store.log_meta (
    -- Exactly one row.
    singleton boolean PRIMARY KEY DEFAULT true CONSTRAINT log_meta_singleton CHECK (singleton),
    -- Raised after a restore that lost events: positions compare within one epoch only.
    epoch integer NOT NULL CONSTRAINT log_meta_epoch_positive CHECK (epoch > 0)
);

INSERT INTO event_store.log_meta (epoch) VALUES (1);
