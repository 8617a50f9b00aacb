-- What each process may do, and for how long. Run on the database after `command-api migrate`, and
-- again after each upgrade, by its owner or by a superuser; safe to repeat. The roles that it makes
-- can't log in: `logins.sql` makes them users with passwords, or grant them to users of your own.

-- One transaction: processes that run meanwhile never find a right missing that they have after it.
BEGIN;

DO $$
DECLARE
    role text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkledger roles'));
    FOREACH role IN ARRAY ARRAY['linkledger_owner', 'linkledger_command_api', 'linkledger_relay',
                                'linkledger_projector', 'linkledger_query_api',
                                'linkledger_operator'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION
            -- Roles belong to the whole server: another database may be making them.
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$$;

-- What an earlier release granted and this one does not need goes.
REVOKE ALL ON SCHEMA event_store, read_model FROM PUBLIC, linkledger_command_api, linkledger_relay,
    linkledger_projector, linkledger_query_api, linkledger_operator;
REVOKE ALL ON ALL TABLES IN SCHEMA event_store, read_model FROM PUBLIC, linkledger_command_api,
    linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_operator;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA event_store, read_model FROM PUBLIC, linkledger_command_api,
    linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_operator;

-- Nobody makes tables of his own, not even for a while.
REVOKE ALL ON SCHEMA public FROM PUBLIC;
DO $$
BEGIN
    EXECUTE format('REVOKE CREATE, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END
$$;

GRANT USAGE ON SCHEMA event_store TO linkledger_command_api, linkledger_relay,
    linkledger_projector, linkledger_query_api, linkledger_operator;
GRANT USAGE ON SCHEMA read_model TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;

-- Everybody: whether the migrations that a release needs were run, and how far the log is.
GRANT SELECT ON event_store._sqlx_migrations, read_model._sqlx_migrations TO
    linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
GRANT SELECT ON event_store.log_meta, event_store.log_shards TO linkledger_command_api,
    linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_operator;

-- To lock a row takes the right to update one of its columns, whichever: the rights below are what
-- is written, and suffice for the locks.

-- command-api decides: it appends events and never changes one.
GRANT SELECT, INSERT ON event_store.events TO linkledger_command_api;
GRANT UPDATE (head) ON event_store.log_shards TO linkledger_command_api;
GRANT SELECT ON event_store.accounts, event_store.api_keys TO linkledger_command_api;
-- Of a key nothing but when it was used.
GRANT UPDATE (last_used_at) ON event_store.api_keys TO linkledger_command_api;
GRANT UPDATE (balance, version) ON event_store.accounts TO linkledger_command_api;
-- DELETE for reservations that nobody took, before they are committed.
GRANT SELECT, INSERT, DELETE ON event_store.slugs TO linkledger_command_api;
GRANT UPDATE (slug, shard, link_id) ON event_store.slugs TO linkledger_command_api;
-- It seals segments of the log, and changes none.
GRANT SELECT, INSERT ON event_store.log_segments TO linkledger_command_api;

-- The relay, which runs inside command-api with sessions of its own (RELAY_DATABASE_URL), reads
-- the log and moves its cursors; which log they belong to is an operator's to say.
GRANT SELECT ON event_store.events TO linkledger_relay;
GRANT SELECT ON event_store.relay_cursors TO linkledger_relay;
GRANT UPDATE (position, owner, lease_epoch, lease_expires_at, cluster_id, record_offset, topic_lost,
              lost_epoch, refusal, refused_at)
    ON event_store.relay_cursors TO linkledger_relay;
GRANT SELECT, INSERT, DELETE ON event_store.relay_producers TO linkledger_relay;
GRANT UPDATE (made_at, settles_at) ON event_store.relay_producers TO linkledger_relay;

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
-- What operators have decided, and what it tells them of itself.
GRANT SELECT ON read_model.skipped_events, read_model.verifications TO linkledger_projector;
GRANT SELECT, INSERT ON read_model.tenures TO linkledger_projector;
GRANT UPDATE (owner, version, since, seen_at, events_per_second, last_error, last_error_at)
    ON read_model.tenures TO linkledger_projector;
GRANT SELECT ON read_model.redirect_change_counter TO linkledger_projector;
GRANT UPDATE (last_number) ON read_model.redirect_change_counter TO linkledger_projector;
-- How far publishing is, and what operators have made of the read models, for its status.
GRANT SELECT ON event_store.relay_cursors, read_model.operations, read_model.generations
    TO linkledger_projector;
-- Its console shows accounts, and links by their slugs; it writes nothing.
GRANT SELECT (account_id, name, balance, version, status, redirects_stopped, created_at)
    ON event_store.accounts TO linkledger_projector;
GRANT SELECT (slug_folded, link_id) ON event_store.slugs TO linkledger_projector;

-- query-api reads; of the event store only what tells a miss from a 404, and who calls. It writes
-- one thing: when a key was used.
GRANT SELECT ON read_model.links, read_model.redirects, read_model.stopped_accounts,
    read_model.credit_balances, read_model.credit_entries, read_model.projections,
    read_model.checkpoints, read_model.parked_accounts, read_model.redirect_changes,
    read_model.redirect_change_counter
    TO linkledger_query_api;
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
-- Another epoch after a restore, and the record of it.
GRANT UPDATE (epoch) ON event_store.log_meta TO linkledger_operator;
GRANT SELECT, INSERT ON event_store.log_epochs TO linkledger_operator;
GRANT UPDATE (revoked_at) ON event_store.api_keys TO linkledger_operator;
GRANT SELECT, UPDATE ON event_store.relay_cursors TO linkledger_operator;
GRANT SELECT, DELETE ON event_store.relay_producers TO linkledger_operator;
GRANT SELECT ON ALL TABLES IN SCHEMA read_model TO linkledger_operator;
-- What operators do to the read models is on record: begun, and ended, and never taken away.
GRANT INSERT ON read_model.operations TO linkledger_operator;
GRANT UPDATE (lease_expires_at, finished_at, outcome, detail) ON read_model.operations
    TO linkledger_operator;

-- An operator pauses projections, leaves events out, and applies what waits of parked accounts,
-- which is to write as the projector does.
GRANT UPDATE (paused_at) ON read_model.checkpoints TO linkledger_operator;
GRANT INSERT ON read_model.skipped_events TO linkledger_operator;
GRANT INSERT, UPDATE ON
    read_model.links, read_model.redirects, read_model.credit_balances, read_model.credit_entries
    TO linkledger_operator;
GRANT DELETE ON read_model.links TO linkledger_operator;
GRANT INSERT, DELETE ON read_model.stopped_accounts TO linkledger_operator;
GRANT INSERT ON read_model.redirect_changes TO linkledger_operator;
GRANT UPDATE (last_number) ON read_model.redirect_change_counter TO linkledger_operator;
GRANT DELETE ON read_model.parked_accounts, read_model.parked_events TO linkledger_operator;
GRANT UPDATE (position, event_type, reason, detail) ON read_model.parked_accounts
    TO linkledger_operator;

-- What a verification has come to, and the right rows in the place of wrong ones.
GRANT INSERT ON read_model.verifications TO linkledger_operator;
GRANT UPDATE (verified_at, operator, events, mismatches) ON read_model.verifications
    TO linkledger_operator;
GRANT DELETE ON
    read_model.redirects, read_model.credit_balances, read_model.credit_entries
    TO linkledger_operator;

-- An operator builds generations as the projector writes them, and says which one is served. Their
-- tables are made and dropped by functions that run with the rights of the owner.
GRANT UPDATE (position, role) ON read_model.checkpoints TO linkledger_operator;
GRANT UPDATE (active_generation) ON read_model.projections TO linkledger_operator;
GRANT UPDATE (phase, compared_at, last_active_at) ON read_model.generations TO linkledger_operator;
GRANT INSERT ON read_model.parked_accounts, read_model.parked_events TO linkledger_operator;
GRANT UPDATE (account_id) ON read_model.parked_events TO linkledger_operator;
GRANT EXECUTE ON FUNCTION
    read_model.create_generation(text, integer, integer),
    read_model.analyze_table(text, text, integer),
    read_model.drop_generation(text, integer)
    TO linkledger_operator;

-- How long a session may take. A service's sessions ask for less where less will do, and an
-- operator's commands for what they need; this bounds whatever asks for nothing. A transaction that
-- stands still keeps dead rows for the whole server, and its locks for everybody.
DO $$
DECLARE
    it record;
BEGIN
    FOR it IN
        SELECT role, setting, value
        FROM (VALUES
            ('linkledger_command_api', '5s', '1s', '1s'),
            ('linkledger_relay', '5s', '1s', '1s'),
            ('linkledger_projector', '5s', '1s', '1s'),
            ('linkledger_query_api', '5s', '1s', '1s'),
            -- People, who look at a statement before they end it.
            ('linkledger_operator', '60s', '1s', '10s'),
            -- A migration takes as long as it takes, once it has its locks.
            ('linkledger_owner', '0', '5s', '60s')
        ) AS limits (role, statement, lock, idle)
        CROSS JOIN LATERAL (VALUES
            ('statement_timeout', statement),
            ('lock_timeout', lock),
            ('idle_in_transaction_session_timeout', idle)
        ) AS one (setting, value)
        WHERE NOT EXISTS (
            SELECT FROM pg_db_role_setting AS s
            JOIN pg_database AS d ON d.oid = s.setdatabase AND d.datname = current_database()
            WHERE s.setrole = to_regrole(role) AND format('%s=%s', setting, value) = ANY (s.setconfig)
        )
    LOOP
        BEGIN
            EXECUTE format(
                'ALTER ROLE %I IN DATABASE %I SET %I = %L',
                it.role, current_database(), it.setting, it.value
            );
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE WARNING 'a superuser has to run this script once more, for the time limits of %',
                    it.role;
        END;
    END LOOP;
END
$$;

-- Who holds the oldest snapshot of the server: the projector's metrics and its status say it. A
-- superuser grants that, or whoever may grant this role; without it only sessions of the own user
-- are seen, and the status says so.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['linkledger_projector', 'linkledger_operator'] LOOP
        BEGIN
            IF NOT pg_has_role(role, 'pg_read_all_stats', 'USAGE') THEN
                EXECUTE format('GRANT pg_read_all_stats TO %I', role);
            END IF;
        EXCEPTION
            -- From another database of the server.
            WHEN unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'a superuser has to grant pg_read_all_stats to %', role;
        END;
    END LOOP;
END
$$;

COMMIT;
