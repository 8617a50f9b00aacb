-- Makes the users with which the processes connect: the roles of `roles.sql`, each with the password in the
-- file of its name in FOLDER. Run this script as a superuser on a new server, before the database is created,
-- and again with other files to change passwords. Open sessions stay open.
--
--   psql -X -v folder=FOLDER -f deploy/postgres/logins.sql "host=… dbname=postgres user=postgres"
\set ON_ERROR_STOP on
\set QUIET on

\cd :folder
\set owner `cat linkledger_owner`
\set command_api `cat linkledger_command_api`
\set relay `cat linkledger_relay`
\set projector `cat linkledger_projector`
\set query_api `cat linkledger_query_api`
\set webhooks `cat linkledger_webhooks`
\set operator `cat linkledger_operator`

BEGIN;
-- The passwords must not appear in the log of the server.
SET LOCAL log_statement = 'none';
SET LOCAL log_min_duration_statement = -1;
SET LOCAL log_min_error_statement = 'panic';
SET LOCAL password_encryption = 'scram-sha-256';

CREATE TEMPORARY TABLE users ON COMMIT DROP AS
SELECT * FROM (VALUES
    ('linkledger_owner', :'owner'),
    ('linkledger_command_api', :'command_api'),
    ('linkledger_relay', :'relay'),
    ('linkledger_projector', :'projector'),
    ('linkledger_query_api', :'query_api'),
    ('linkledger_webhooks', :'webhooks'),
    ('linkledger_operator', :'operator')
) AS u (name, password);
DO $$
BEGIN
    IF EXISTS (SELECT FROM users WHERE password = '') THEN
        RAISE EXCEPTION 'the folder has no password, or an empty file, for: %',
            (SELECT string_agg(name, ', ') FROM users WHERE password = '');
    END IF;
END
$$;

SELECT format('CREATE ROLE %I', name) FROM users
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
\gexec
SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', name, password) FROM users
\gexec
COMMIT;
