-- What each process may do. Run by the owner of the database after `command-api migrate`, and again
-- after each upgrade; safe to repeat. It makes roles without a password and without LOGIN: grant
-- them to the users that your processes connect as.

DO $$
DECLARE
    role text;
BEGIN
    -- Roles belong to the whole server; two databases may be set up at once.
    PERFORM pg_advisory_xact_lock(hashtext('linkledger roles'));
    FOREACH role IN ARRAY ARRAY['linkledger_command_api', 'linkledger_projector',
                                'linkledger_query_api', 'linkledger_operator'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
    END LOOP;
END
$$;

REVOKE ALL ON SCHEMA event_store, read_model FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA event_store, read_model FROM PUBLIC;
GRANT USAGE ON SCHEMA event_store TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
GRANT USAGE ON SCHEMA read_model TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;

-- Everybody: whether the migrations that a release needs were run.
GRANT SELECT ON event_store._sqlx_migrations, read_model._sqlx_migrations TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
GRANT SELECT ON event_store.log_meta, event_store.log_shards TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;

-- command-api decides and relays: it appends events and never changes one.
GRANT SELECT, INSERT ON event_store.events TO linkledger_command_api;
GRANT SELECT, UPDATE ON event_store.log_shards, event_store.relay_cursors
    TO linkledger_command_api;
GRANT SELECT ON event_store.accounts, event_store.api_keys TO linkledger_command_api;
GRANT UPDATE (balance, version) ON event_store.accounts TO linkledger_command_api;
-- DELETE for reservations that nobody took, before they are committed.
GRANT SELECT, INSERT, UPDATE, DELETE ON event_store.slugs TO linkledger_command_api;

-- projector reads the log and writes the read tables.
GRANT SELECT ON event_store.events TO linkledger_projector;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA read_model TO linkledger_projector;
REVOKE INSERT, UPDATE, DELETE ON read_model._sqlx_migrations FROM linkledger_projector;

-- query-api reads; of the event store only what tells a miss from a 404, and who calls.
GRANT SELECT ON ALL TABLES IN SCHEMA read_model TO linkledger_query_api;
GRANT SELECT ON event_store.events, event_store.slugs, event_store.api_keys
    TO linkledger_query_api;
GRANT SELECT (account_id, status) ON event_store.accounts TO linkledger_query_api;

-- An operator's commands: accounts, keys, credits.
GRANT SELECT, INSERT ON event_store.events TO linkledger_operator;
GRANT SELECT, UPDATE ON event_store.log_shards TO linkledger_operator;
GRANT SELECT, INSERT, UPDATE ON event_store.accounts, event_store.api_keys
    TO linkledger_operator;
GRANT SELECT ON ALL TABLES IN SCHEMA read_model TO linkledger_operator;
