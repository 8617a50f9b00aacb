-- All that the role $1 may do in this database, however it came by it, an object a line: what it is,
-- where it is, then the rights, with the columns of those that it has on some columns only.
WITH role AS (SELECT r.* FROM pg_roles AS r WHERE r.rolname = $1),
relations AS (
    SELECT c.oid, n.nspname || '.' || c.relname AS name, c.relkind
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('clicks', 'event_store', 'read_model', 'public') AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
),
of_tables AS (
    SELECT t.name, right_name, nth,
        CASE
            WHEN has_table_privilege($1, t.oid, right_name) THEN right_name
            WHEN right_name IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') THEN (
                SELECT right_name || ' (' || string_agg(a.attname, ', ' ORDER BY a.attnum) || ')'
                FROM pg_attribute AS a
                WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
                  AND has_column_privilege($1, t.oid, a.attnum, right_name)
            )
        END AS granted
    FROM relations AS t
    CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'])
        WITH ORDINALITY AS r (right_name, nth)
    WHERE t.relkind <> 'S'
),
of_sequences AS (
    SELECT t.name, right_name, nth,
        CASE WHEN has_sequence_privilege($1, t.oid, right_name) THEN right_name END AS granted
    FROM relations AS t
    CROSS JOIN unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) WITH ORDINALITY AS r (right_name, nth)
    WHERE t.relkind = 'S'
),
of_functions AS (
    SELECT p.oid::regprocedure::text AS name, 'EXECUTE' AS right_name, 1::bigint AS nth,
        CASE WHEN has_function_privilege($1, p.oid, 'EXECUTE') THEN 'EXECUTE' END AS granted
    FROM pg_proc AS p
    WHERE p.pronamespace::regnamespace::text IN ('clicks', 'event_store', 'read_model', 'public')
),
of_schemas AS (
    SELECT n.nspname AS name, right_name, nth,
        CASE WHEN has_schema_privilege($1, n.oid, right_name) THEN right_name END AS granted
    FROM pg_namespace AS n
    CROSS JOIN unnest(ARRAY['USAGE', 'CREATE']) WITH ORDINALITY AS r (right_name, nth)
    WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
),
of_database AS (
    SELECT '' AS name, right_name, nth,
        CASE WHEN has_database_privilege($1, current_database(), right_name) THEN right_name END AS granted
    FROM unnest(ARRAY['CONNECT', 'CREATE', 'TEMPORARY']) WITH ORDINALITY AS r (right_name, nth)
),
of_role AS (
    SELECT '' AS name, right_name, nth, CASE WHEN has THEN right_name END AS granted
    FROM role CROSS JOIN LATERAL (VALUES
        ('SUPERUSER', 1::bigint, rolsuper), ('CREATEROLE', 2, rolcreaterole), ('CREATEDB', 3, rolcreatedb),
        ('REPLICATION', 4, rolreplication), ('BYPASSRLS', 5, rolbypassrls)
    ) AS r (right_name, nth, has)
    UNION ALL
    SELECT '', '', 6, 'member of ' || m.roleid::regrole
    FROM role JOIN pg_auth_members AS m ON m.member = role.oid
),
of_time AS (
    SELECT '' AS name, setting AS right_name, nth, setting AS granted
    FROM role
    JOIN pg_db_role_setting AS s ON s.setrole = role.oid
    JOIN pg_database AS d ON d.oid = s.setdatabase AND d.datname = current_database()
    CROSS JOIN LATERAL (
        SELECT setting, row_number() OVER (ORDER BY setting) AS nth FROM unnest(s.setconfig) AS setting
    ) AS one
),
everything AS (
    SELECT 1 AS place, 'role' AS kind, * FROM of_role
    UNION ALL SELECT 2, 'time', * FROM of_time
    UNION ALL SELECT 3, 'database', * FROM of_database
    UNION ALL SELECT 4, 'schema', * FROM of_schemas
    UNION ALL SELECT 5, 'table', * FROM of_tables
    UNION ALL SELECT 6, 'sequence', * FROM of_sequences
    UNION ALL SELECT 7, 'function', * FROM of_functions
)
SELECT trim(kind || ' ' || name) || ': '
    || coalesce(string_agg(granted, ', ' ORDER BY nth), '-')
FROM everything
GROUP BY place, kind, name
ORDER BY place, name COLLATE "C"
