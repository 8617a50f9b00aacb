-- Tags of links: the rows follow from the tags in read_model.links, and have the order in which lists by tag and the
-- list of an account's tags are read. A GIN index has no order, and is read by a bitmap only, which sessions switch off.
-- Takes no lock on tables of requests. The release before does not write the table: no link has tags until
-- command-api is upgraded, after the projector.
CREATE TABLE read_model.link_tags (
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    tag text COLLATE "C" NOT NULL,
    link_id uuid NOT NULL,
    PRIMARY KEY (generation, account_id, tag, link_id)
) PARTITION BY LIST (generation);

DO $$
DECLARE
    existing record;
BEGIN
    FOR existing IN
        SELECT generation FROM read_model.generations WHERE projection = 'links'
    LOOP
        EXECUTE format(
            'CREATE TABLE read_model.%I PARTITION OF read_model.link_tags FOR VALUES IN (%s)',
            'link_tags_' || existing.generation, existing.generation
        );
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION read_model.projection_tables(for_projection text)
RETURNS TABLE (table_name text, storage text)
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.table_name, t.storage
    FROM (VALUES
        ('links', 'links', ''),
        ('links', 'link_tags', ''),
        ('redirects', 'redirects', ''),
        ('redirects', 'stopped_accounts', ''),
        ('credits', 'credit_balances', 'WITH (fillfactor = 50)'),
        ('credits', 'credit_entries', '')
    ) AS t (projection, table_name, storage)
    WHERE t.projection = for_projection
$$;
