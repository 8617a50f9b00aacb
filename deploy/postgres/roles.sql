-- Rights and time limits of each role. Run this script on the database after `command-api migrate`, and again
-- after each upgrade, as the owner of the database or as a superuser; on both databases if the read tables
-- have a server of their own. Running the script again is safe. The roles can't log in: `logins.sql` makes
-- them users with passwords, or grant the roles to users of your own.

-- One transaction, so that no running process misses for a moment a right that it keeps.
BEGIN;

DO $$
BEGIN
    IF to_regnamespace('event_store') IS NULL AND to_regnamespace('read_model') IS NULL THEN
        RAISE EXCEPTION 'the database has no schema of linkledger: run `command-api migrate` first';
    END IF;
END
$$;

DO $$
DECLARE
    role text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('linkledger roles'));
    FOREACH role IN ARRAY ARRAY['linkledger_owner', 'linkledger_command_api', 'linkledger_relay',
                                'linkledger_projector', 'linkledger_query_api',
                                'linkledger_webhooks', 'linkledger_operator'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION
            -- Roles belong to the whole server: a run on another database may make the same role at this
            -- moment.
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$$;

-- No user may create tables, not even temporary tables.
REVOKE ALL ON SCHEMA public FROM PUBLIC;
DO $$
BEGIN
    EXECUTE format('REVOKE CREATE, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END
$$;

-- Rights on the log. A database of read tables alone lacks this schema.
DO $$
BEGIN
    IF to_regnamespace('event_store') IS NULL THEN
        RETURN;
    END IF;

    -- Removes rights that an earlier release granted and this release does not need.
    REVOKE ALL ON SCHEMA event_store FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    REVOKE ALL ON ALL TABLES IN SCHEMA event_store FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA event_store FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;

    GRANT USAGE ON SCHEMA event_store TO linkledger_command_api, linkledger_relay,
        linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;

    -- All services: position of the migrations, and heads of the log.
    GRANT SELECT ON event_store._sqlx_migrations TO
        linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    GRANT SELECT ON event_store.log_shards TO linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    GRANT SELECT (singleton, log_id, epoch, link_price) ON event_store.log_meta TO linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    -- Who publishes records, and who verifies them.
    GRANT SELECT (record_key) ON event_store.log_meta TO linkledger_relay, linkledger_projector;
    GRANT SELECT (click_record_key) ON event_store.log_meta
        TO linkledger_query_api, linkledger_projector, linkledger_operator;

    -- command-api decides commands: it appends events and never changes an event.
    GRANT SELECT, INSERT ON event_store.events TO linkledger_command_api;
    -- Its setting of the price of a link, which query-api shows.
    GRANT UPDATE (link_price) ON event_store.log_meta TO linkledger_command_api;
    GRANT UPDATE (head) ON event_store.log_shards TO linkledger_command_api;
    GRANT SELECT ON event_store.accounts, event_store.api_keys TO linkledger_command_api;
    -- Of an API key, its public API writes only the time of its last use.
    GRANT UPDATE (last_used_at) ON event_store.api_keys TO linkledger_command_api;
    GRANT UPDATE (balance, version) ON event_store.accounts TO linkledger_command_api;
    -- Its admin API writes accounts and API keys with their events. It may not issue admin keys, or replace a secret.
    GRANT INSERT ON event_store.accounts, event_store.api_keys TO linkledger_command_api;
    GRANT UPDATE (name, external_id, low_balance_at, status, redirects_stopped) ON event_store.accounts
        TO linkledger_command_api;
    GRANT UPDATE (name, scopes, expires_at, revoked_at) ON event_store.api_keys TO linkledger_command_api;
    GRANT SELECT (key_id, sha256, scopes, expires_at, revoked_at) ON event_store.admin_keys
        TO linkledger_command_api, linkledger_projector, linkledger_query_api;
    -- It opens console sessions, and deletes those that are exchanged for API keys or have expired. It changes none:
    -- Postgres demands the right to update of whoever locks rows.
    GRANT SELECT, INSERT, UPDATE (expires_at), DELETE ON event_store.console_sessions TO linkledger_command_api;
    -- Whoever writes or searches names of accounts calls the function of their index.
    GRANT EXECUTE ON FUNCTION event_store.trigrams(text) TO linkledger_command_api, linkledger_query_api,
        linkledger_operator;
    -- Webhooks, their tests, replays and retries. A deletion takes cursors and deliveries with it.
    GRANT SELECT, INSERT, DELETE ON event_store.webhooks TO linkledger_command_api;
    GRANT UPDATE (url, types, description, enabled, disabled_reason, in_order, secret_key_id, secret_generation,
                  previous_key_id, previous_generation, previous_valid_until, updated_at)
        ON event_store.webhooks TO linkledger_command_api;
    GRANT SELECT, INSERT ON event_store.webhook_cursors, event_store.webhook_health, event_store.webhook_deliveries
        TO linkledger_command_api;
    GRANT UPDATE (ill_since, probes, next_probe_at, failing_since, notified_hours) ON event_store.webhook_health
        TO linkledger_command_api;
    GRANT UPDATE (state, next_attempt_at) ON event_store.webhook_deliveries TO linkledger_command_api;
    -- command-api releases reservations that no link takes.
    GRANT SELECT, INSERT, DELETE ON event_store.slugs TO linkledger_command_api;
    -- External ids: a deletion frees them.
    GRANT SELECT, INSERT, DELETE ON event_store.external_ids TO linkledger_command_api;
    -- Expiries: a later change moves them, and their passing or a deletion removes them.
    GRANT SELECT, INSERT, UPDATE (expires_at), DELETE ON event_store.link_expiries TO linkledger_command_api;
    -- command-api seals segments of the log, and never changes a segment.
    GRANT SELECT, INSERT ON event_store.log_segments TO linkledger_command_api;

    -- The relay runs inside command-api with sessions of its own (RELAY_DATABASE_URL). It reads the log and moves
    -- its cursors; only an operator may say to which log the cursors belong.
    GRANT SELECT ON event_store.events TO linkledger_relay;
    GRANT SELECT ON event_store.relay_cursors TO linkledger_relay;
    GRANT UPDATE (position, owner, lease_epoch, lease_expires_at, cluster_id, record_offset, topic_lost,
                  lost_epoch, refusal, refused_at)
        ON event_store.relay_cursors TO linkledger_relay;
    GRANT SELECT, INSERT, DELETE ON event_store.relay_producers TO linkledger_relay;
    GRANT UPDATE (settles_at) ON event_store.relay_producers TO linkledger_relay;

    -- The projector reads the log, and for the status the positions of the relay.
    GRANT SELECT ON event_store.events, event_store.relay_cursors TO linkledger_projector;
    -- Whose clicks it counts by minute.
    GRANT SELECT (account_id, types, enabled, all_accounts) ON event_store.webhooks TO linkledger_projector;

    -- Of the event store query-api reads what tells a stale read table from a 404, the history of links, and
    -- who calls; no idempotency keys. It writes one column: the time of the last use of an API key.
    GRANT SELECT (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
                  metadata, recorded_at)
        ON event_store.events TO linkledger_query_api;
    GRANT SELECT (slug_key, shard, link_id) ON event_store.slugs TO linkledger_query_api;
    GRANT SELECT ON event_store.api_keys TO linkledger_query_api;
    GRANT UPDATE (last_used_at) ON event_store.api_keys TO linkledger_query_api;
    -- Its admin API shows accounts.
    GRANT SELECT (account_id, name, external_id, low_balance_at, balance, version, status, redirects_stopped, created_at)
        ON event_store.accounts TO linkledger_query_api;
    -- It finds links by their external ids, too.
    GRANT SELECT ON event_store.external_ids TO linkledger_query_api;
    -- Webhooks and their deliveries.
    GRANT SELECT ON event_store.webhooks, event_store.webhook_cursors, event_store.webhook_health,
        event_store.webhook_deliveries TO linkledger_query_api;

    -- The dispatcher of webhooks reads the log and moves cursors. It appends two types of events, which notify
    -- of a webhook that fails and disable one, and so moves the counters of the log and of the account. It may change
    -- no address and no secret.
    GRANT SELECT, INSERT ON event_store.events TO linkledger_webhooks;
    GRANT UPDATE (head) ON event_store.log_shards TO linkledger_webhooks;
    GRANT SELECT, UPDATE (balance, version) ON event_store.accounts TO linkledger_webhooks;
    GRANT SELECT, UPDATE (enabled, disabled_reason, updated_at) ON event_store.webhooks TO linkledger_webhooks;
    -- It deletes the cursor of a finished replay.
    GRANT SELECT, UPDATE (position, version), DELETE ON event_store.webhook_cursors TO linkledger_webhooks;
    GRANT SELECT, UPDATE (ill_since, probes, next_probe_at, failing_since, notified_hours, blocked_since,
                          last_success_at, last_attempt_at, last_status, last_error)
        ON event_store.webhook_health TO linkledger_webhooks;
    -- It deletes all but the last ones that were delivered, or failed.
    GRANT SELECT, INSERT, DELETE ON event_store.webhook_deliveries TO linkledger_webhooks;
    GRANT UPDATE (state, attempts, next_attempt_at, last_attempt_at, last_status, last_error, response)
        ON event_store.webhook_deliveries TO linkledger_webhooks;
    GRANT SELECT, UPDATE (owner, expires_at) ON event_store.webhook_dispatcher TO linkledger_webhooks;

    -- Operators' commands on accounts, API keys, credits, links and the relay.
    GRANT SELECT, INSERT ON event_store.events TO linkledger_operator;
    GRANT UPDATE (head) ON event_store.log_shards TO linkledger_operator;
    GRANT SELECT, INSERT ON event_store.accounts, event_store.api_keys TO linkledger_operator;
    GRANT UPDATE (balance, version, name, external_id, low_balance_at, status, redirects_stopped)
        ON event_store.accounts TO linkledger_operator;
    GRANT SELECT (slug_key, slug, shard, link_id) ON event_store.slugs TO linkledger_operator;
    GRANT SELECT ON event_store.log_segments, event_store.external_ids, event_store.link_expiries
        TO linkledger_operator;
    -- A new epoch after a restore, and the record of the epoch.
    GRANT UPDATE (epoch) ON event_store.log_meta TO linkledger_operator;
    GRANT SELECT, INSERT ON event_store.log_epochs TO linkledger_operator;
    GRANT UPDATE (name, scopes, expires_at, revoked_at) ON event_store.api_keys TO linkledger_operator;
    -- Only an operator issues and revokes admin keys.
    GRANT SELECT, INSERT ON event_store.admin_keys TO linkledger_operator;
    GRANT UPDATE (revoked_at, revoked_by) ON event_store.admin_keys TO linkledger_operator;
    GRANT SELECT, UPDATE ON event_store.relay_cursors TO linkledger_operator;
    GRANT SELECT, DELETE ON event_store.relay_producers TO linkledger_operator;
    -- The check of the log reads webhooks, and an operator what became of messages.
    GRANT SELECT ON event_store.webhooks, event_store.webhook_cursors, event_store.webhook_health,
        event_store.webhook_deliveries, event_store.webhook_dispatcher TO linkledger_operator;
END
$$;

-- Rights on the read tables. A database of the log alone lacks this schema.
DO $$
BEGIN
    IF to_regnamespace('read_model') IS NULL THEN
        RETURN;
    END IF;

    -- Removes rights that an earlier release granted and this release does not need.
    REVOKE ALL ON SCHEMA read_model FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    REVOKE ALL ON ALL TABLES IN SCHEMA read_model FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA read_model FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;

    GRANT USAGE ON SCHEMA read_model TO
        linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
    GRANT SELECT ON read_model._sqlx_migrations TO
        linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
    -- Identity of the log that the read tables follow.
    GRANT SELECT ON read_model.followed_log TO
        linkledger_projector, linkledger_query_api, linkledger_operator;

    -- The projector writes the read tables. It deletes rows of deleted links, of lifted suspensions, and changes
    -- that no redirect cache waits for. It may not choose the generation that is served.
    GRANT SELECT ON read_model.projections, read_model.checkpoints TO linkledger_projector;
    -- The projector pauses a projection whose table cannot be written, or for an operator.
    GRANT UPDATE (position, paused_at) ON read_model.checkpoints TO linkledger_projector;
    GRANT SELECT, INSERT, UPDATE ON
        read_model.links, read_model.redirects, read_model.credit_balances, read_model.credit_entries
        TO linkledger_projector;
    GRANT DELETE ON read_model.links TO linkledger_projector;
    GRANT SELECT, INSERT, DELETE ON
        read_model.link_tags, read_model.stopped_accounts, read_model.redirect_changes
        TO linkledger_projector;
    -- Accounts with an event that can't be applied are parked, and released later.
    GRANT SELECT, INSERT, DELETE ON read_model.parked_accounts, read_model.parked_events
        TO linkledger_projector;
    GRANT UPDATE (position, event_type, reason, detail) ON read_model.parked_accounts
        TO linkledger_projector;
    GRANT UPDATE (account_id) ON read_model.parked_events TO linkledger_projector;
    -- Decisions of operators, which the projector reads, and the shards that it claims.
    GRANT SELECT ON read_model.skipped_events, read_model.verifications TO linkledger_projector;
    GRANT SELECT ON read_model.claims TO linkledger_projector;
    GRANT UPDATE (owner_id, owner, version, renewed_at, events_per_second, last_error, last_error_at)
        ON read_model.claims TO linkledger_projector;
    GRANT SELECT ON read_model.redirect_change_counter TO linkledger_projector;
    GRANT UPDATE (last_number) ON read_model.redirect_change_counter TO linkledger_projector;
    -- Commands of operators, for the status; its admin API records pauses.
    GRANT SELECT ON read_model.operations, read_model.generations TO linkledger_projector;
    GRANT INSERT ON read_model.operations TO linkledger_projector;

    -- query-api only reads.
    GRANT SELECT ON read_model.links, read_model.link_tags, read_model.redirects,
        read_model.stopped_accounts, read_model.credit_balances, read_model.credit_entries,
        read_model.projections, read_model.checkpoints, read_model.parked_accounts, read_model.redirect_changes,
        read_model.redirect_change_counter
        TO linkledger_query_api;

    -- An operator reads everything.
    GRANT SELECT ON ALL TABLES IN SCHEMA read_model TO linkledger_operator;
    -- Records of operators' commands on read models: they are inserted and ended, and never deleted.
    GRANT INSERT ON read_model.operations TO linkledger_operator;
    GRANT UPDATE (finished_at, outcome, detail) ON read_model.operations TO linkledger_operator;

    -- An operator pauses projections, skips events, and applies the waiting events of parked accounts, which
    -- needs the same writes as the projector.
    GRANT UPDATE (paused_at) ON read_model.checkpoints TO linkledger_operator;
    GRANT INSERT ON read_model.skipped_events TO linkledger_operator;
    GRANT INSERT, UPDATE ON
        read_model.links, read_model.redirects, read_model.credit_balances, read_model.credit_entries
        TO linkledger_operator;
    GRANT DELETE ON read_model.links TO linkledger_operator;
    GRANT INSERT, DELETE ON read_model.link_tags, read_model.stopped_accounts TO linkledger_operator;
    GRANT INSERT ON read_model.redirect_changes TO linkledger_operator;
    GRANT UPDATE (last_number) ON read_model.redirect_change_counter TO linkledger_operator;
    GRANT DELETE ON read_model.parked_accounts, read_model.parked_events TO linkledger_operator;
    GRANT UPDATE (position, event_type, reason, detail) ON read_model.parked_accounts
        TO linkledger_operator;

    -- Results of verifications, and the repair of wrong rows.
    GRANT INSERT ON read_model.verifications TO linkledger_operator;
    GRANT UPDATE (verified_at, mismatches) ON read_model.verifications TO linkledger_operator;
    GRANT DELETE ON
        read_model.redirects, read_model.credit_balances, read_model.credit_entries
        TO linkledger_operator;

    -- An operator builds generations, with the same writes as the projector, and chooses the generation that is
    -- served. Functions with the rights of the owner create and drop the tables of generations.
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
END
$$;

-- Rights on clicks. A database of the log alone lacks this schema. Partitions need no rights of their own.
DO $$
BEGIN
    IF to_regnamespace('clicks') IS NULL THEN
        RETURN;
    END IF;

    -- Removes rights that an earlier release granted and this release does not need.
    REVOKE ALL ON SCHEMA clicks FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    REVOKE ALL ON ALL TABLES IN SCHEMA clicks FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clicks FROM PUBLIC, linkledger_command_api,
        linkledger_relay, linkledger_projector, linkledger_query_api, linkledger_webhooks, linkledger_operator;

    GRANT USAGE ON SCHEMA clicks TO
        linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
    GRANT SELECT ON clicks._sqlx_migrations TO linkledger_command_api;
    -- It makes events of first clicks, and of clicks by minute once they are all counted.
    GRANT SELECT ON clicks.first_clicks, clicks.link_minutes, clicks.positions, clicks.sequences, clicks.recorders,
        clicks.heartbeats TO linkledger_command_api;
    GRANT UPDATE (announced_at) ON clicks.first_clicks TO linkledger_command_api;
    GRANT DELETE ON clicks.link_minutes TO linkledger_command_api;
    GRANT SELECT ON clicks._sqlx_migrations, clicks.positions, clicks.sequences, clicks.recorders,
        clicks.heartbeats TO linkledger_projector, linkledger_query_api, linkledger_operator;
    GRANT SELECT ON clicks.link_15min, clicks.link_days, clicks.link_values,
        clicks.account_15min, clicks.account_days, clicks.account_values
        TO linkledger_projector, linkledger_query_api, linkledger_operator;
    GRANT SELECT ON clicks.first_clicks, clicks.link_minutes TO linkledger_projector, linkledger_operator;
    GRANT EXECUTE ON FUNCTION clicks.complete_until()
        TO linkledger_command_api, linkledger_projector, linkledger_query_api, linkledger_operator;
    GRANT EXECUTE ON FUNCTION clicks.lag_seconds()
        TO linkledger_projector, linkledger_query_api, linkledger_operator;

    -- The projector counts: it moves positions, and adds to statistics. Statistics are deleted only with their
    -- partitions, by functions with the rights of the owner.
    GRANT UPDATE (next_offset, last_record_id, read_to_end_at, counted_at) ON clicks.positions
        TO linkledger_projector;
    -- Its admin API pauses the aggregation.
    GRANT UPDATE (paused_at) ON clicks.positions TO linkledger_projector;
    GRANT INSERT, DELETE ON clicks.sequences TO linkledger_projector;
    GRANT UPDATE (sequence, missing, counted_at) ON clicks.sequences TO linkledger_projector;
    GRANT INSERT ON clicks.link_15min, clicks.link_days, clicks.link_values,
        clicks.account_15min, clicks.account_days, clicks.account_values TO linkledger_projector;
    GRANT UPDATE (clicks, bots) ON clicks.link_15min, clicks.account_15min
        TO linkledger_projector;
    -- Clicks of which command-api makes events.
    GRANT INSERT ON clicks.first_clicks, clicks.link_minutes TO linkledger_projector;
    GRANT UPDATE (clicks, bots) ON clicks.link_minutes TO linkledger_projector;
    GRANT UPDATE (clicks, bots, visitors) ON clicks.link_days, clicks.account_days
        TO linkledger_projector;
    GRANT UPDATE (country, referrer_host, browser, os, device)
        ON clicks.link_values, clicks.account_values TO linkledger_projector;
    GRANT EXECUTE ON FUNCTION clicks.create_partitions(date), clicks.drop_expired_partition(),
        clicks.statistics_tables() TO linkledger_projector;
    -- It makes and deletes the salts of visitors, and deletes recorders of the past with their heartbeats.
    GRANT SELECT, INSERT, DELETE ON clicks.salts TO linkledger_projector;
    GRANT DELETE ON clicks.recorders, clicks.heartbeats TO linkledger_projector;

    -- query-api records: it reads salts, and reports how far it has recorded.
    GRANT SELECT ON clicks.salts TO linkledger_query_api;
    GRANT INSERT ON clicks.recorders TO linkledger_query_api;
    GRANT UPDATE (seen_at, ended_at, same_address) ON clicks.recorders TO linkledger_query_api;
    GRANT INSERT, DELETE ON clicks.heartbeats TO linkledger_query_api;

    -- An operator pauses the aggregation of clicks, and counts statistics again, with the same writes as the projector.
    GRANT UPDATE (paused_at) ON clicks.positions TO linkledger_operator;
    GRANT INSERT, DELETE ON clicks.link_15min, clicks.link_days, clicks.link_values,
        clicks.account_15min, clicks.account_days, clicks.account_values TO linkledger_operator;
    GRANT UPDATE (clicks, bots) ON clicks.link_15min, clicks.account_15min
        TO linkledger_operator;
    GRANT UPDATE (clicks, bots, visitors) ON clicks.link_days, clicks.account_days
        TO linkledger_operator;
    GRANT UPDATE (country, referrer_host, browser, os, device)
        ON clicks.link_values, clicks.account_values TO linkledger_operator;
    GRANT EXECUTE ON FUNCTION clicks.create_partitions(date) TO linkledger_operator;
END
$$;

-- Time limits of sessions. The services and the operators' commands set limits of their own; these limits
-- apply to every other session. A transaction that stands still keeps dead rows for the whole server, and
-- holds its locks.
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
            ('linkledger_webhooks', '5s', '1s', '1s'),
            -- People look at a statement before they end it.
            ('linkledger_operator', '60s', '1s', '10s'),
            -- A migration may run for any time, once it has its locks.
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
                RAISE WARNING 'the time limits of % were not set; run this script again as a superuser',
                    it.role;
        END;
    END LOOP;
END
$$;

-- pg_read_all_stats shows which session holds the oldest snapshot of the server, for the projector's metrics
-- and its status. A superuser can grant this role, or a user with the admin option. Without the role only
-- sessions of the same user are visible, and the status says so.
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
            -- A run on another database of the server grants the role at this moment.
            WHEN unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'pg_read_all_stats was not granted to %; grant it as a superuser', role;
        END;
    END LOOP;
END
$$;

COMMIT;
