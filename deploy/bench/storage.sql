-- Bytes per row of each table of the database, as CSV, for deploy/bench/capacity.py.
--   psql --no-psqlrc --quiet --csv --file deploy/bench/storage.sql "$DATABASE_URL"
-- The number of rows is the estimate of the last ANALYZE; tables below a megabyte are left out.
SELECT t.relnamespace::regnamespace || '.' || regexp_replace(t.relname, '_\d+$', '') AS "table",
       t.reltuples::bigint AS rows,
       round((pg_table_size(t.oid) / t.reltuples)::numeric, 1) AS row_bytes,
       round((pg_indexes_size(t.oid) / t.reltuples)::numeric, 1) AS index_bytes
FROM pg_class AS t
WHERE t.relkind = 'r' AND t.reltuples > 0 AND pg_total_relation_size(t.oid) > 1000000
  AND t.relnamespace IN ('event_store'::regnamespace, 'read_model'::regnamespace)
ORDER BY 1;
