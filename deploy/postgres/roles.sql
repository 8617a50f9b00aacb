-- What each process may do. Run by the owner of the database after `command-api migrate`, and again
-- after each upgrade; safe to repeat. It makes roles without a password and without LOGIN: grant
-- them to the users that your processes connect as.

-- One transaction: processes that run meanwhile never find a right missing that they have after it.
BEGIN;

DO $$
DECLARE
    role text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkledger roles'));
    FOREACH role IN ARRAY ARRAY['linkledger_command_api', 'linkledger_projector',
                                'linkledger_query_api', 'linkledger_operator'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION
            -- Roles belong to the whole server: another database may have them, or be making them.
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$$;

-- What an earlier release granted and this one does not need goes.
REVOKE ALL ON SCHEMA event_store, read_model FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA event_store, read_model FROM PUBLIC,
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;

GRANT USAGE ON SCHEMA event_store, read_model TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;

-- Everybody: whether the migrations that a release needs were run, and how far the log is.
GRANT SELECT ON event_store._sqlx_migrations, read_model._sqlx_migrations TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
GRANT SELECT ON event_store.log_meta, event_store.log_shards TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;

-- To lock a row takes the right to update one of its columns, whichever: the rights below are what
-- is written, and suffice for the locks.

-- command-api decides and relays: it appends events and never changes one.
GRANT SELECT, INSERT ON event_store.events TO linkledger_command_api;
GRANT UPDATE (head) ON event_store.log_shards TO linkledger_command_api;
GRANT SELECT ON event_store.accounts, event_store.api_keys TO linkledger_command_api;
-- Of a key nothing but when it was used.
GRANT UPDATE (last_used_at) ON event_store.api_keys TO linkledger_command_api;
GRANT UPDATE (balance, version) ON event_store.accounts TO linkledger_command_api;
-- DELETE for reservations that nobody took, before they are committed.
GRANT SELECT, INSERT, DELETE ON event_store.slugs TO linkledger_command_api;
GRANT UPDATE (slug, shard, link_id) ON event_store.slugs TO linkledger_command_api;
GRANT SELECT ON event_store.relay_cursors TO linkledger_command_api;
GRANT UPDATE (position, owner, lease_epoch, lease_expires_at, cluster_id, record_offset, topic_lost,
              lost_epoch, refusal, refused_at)
    ON event_store.relay_cursors TO linkledger_command_api;
GRANT SELECT, INSERT, DELETE ON event_store.relay_producers TO linkledger_command_api;
GRANT UPDATE (made_at, settles_at) ON event_store.relay_producers TO linkledger_command_api;

-- It seals segments of the log, and changes none.
GRANT SELECT, INSERT ON event_store.log_segments TO linkledger_command_api;

-- projector reads the log and writes the read tables. It deletes what the log has ended: links,
-- suspensions, changes that no cache waits for. Which generation is read is not its to say.
GRANT SELECT ON event_store.events TO linkledger_projector;
GRANT SELECT ON read_model.projections, read_model.checkpoints TO linkledger_projector;
GRANT UPDATE (position) ON read_model.checkpoints TO linkledger_projector;
GRANT SELECT, INSERT, UPDATE ON
    read_model.links, read_model.redirects, read_model.credit_balances, read_model.credit_entries
    TO linkledger_projector;
GRANT DELETE ON read_model.links TO linkledger_projector;
GRANT SELECT, INSERT, DELETE ON read_model.stopped_accounts, read_model.redirect_changes
    TO linkledger_projector;
-- Accounts that can't be projected: they are parked, and released.
GRANT SELECT, INSERT, DELETE ON read_model.parked_accounts, read_model.parked_events
    TO linkledger_projector;
GRANT UPDATE (position, event_type, reason, detail) ON read_model.parked_accounts
    TO linkledger_projector;
GRANT UPDATE (account_id) ON read_model.parked_events TO linkledger_projector;
GRANT SELECT ON read_model.redirect_change_counter TO linkledger_projector;
GRANT UPDATE (last_number) ON read_model.redirect_change_counter TO linkledger_projector;

-- query-api reads; of the event store only what tells a miss from a 404, and who calls. It writes
-- one thing: when a key was used.
GRANT SELECT ON ALL TABLES IN SCHEMA read_model TO linkledger_query_api;
GRANT SELECT (shard, position, stream_id, version, account_id, type) ON event_store.events
    TO linkledger_query_api;
GRANT SELECT (slug_folded, shard, link_id) ON event_store.slugs TO linkledger_query_api;
GRANT SELECT (key_id, account_id, sha256, scopes, expires_at, revoked_at, last_used_at)
    ON event_store.api_keys TO linkledger_query_api;
GRANT UPDATE (last_used_at) ON event_store.api_keys TO linkledger_query_api;
GRANT SELECT (account_id, status) ON event_store.accounts TO linkledger_query_api;

-- An operator's commands: accounts, keys, credits, links, the relay.
GRANT SELECT, INSERT ON event_store.events TO linkledger_operator;
GRANT UPDATE (head) ON event_store.log_shards TO linkledger_operator;
GRANT SELECT, INSERT ON event_store.accounts, event_store.api_keys TO linkledger_operator;
GRANT UPDATE (balance, version, status, redirects_stopped) ON event_store.accounts
    TO linkledger_operator;
GRANT SELECT (slug_folded, slug, shard, link_id) ON event_store.slugs TO linkledger_operator;
GRANT SELECT ON event_store.log_segments TO linkledger_operator;
GRANT UPDATE (revoked_at) ON event_store.api_keys TO linkledger_operator;
GRANT SELECT, UPDATE ON event_store.relay_cursors TO linkledger_operator;
GRANT SELECT, DELETE ON event_store.relay_producers TO linkledger_operator;
GRANT SELECT ON ALL TABLES IN SCHEMA read_model TO linkledger_operator;

COMMIT;
