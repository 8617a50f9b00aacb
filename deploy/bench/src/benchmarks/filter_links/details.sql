-- Details of the links of one account, in the read tables only: searches read nothing else. A link has the number of
-- its place in the order of creation, from 1, which the test of the filters knows as well.
WITH numbered AS MATERIALIZED (
    SELECT link_id, slug, row_number() OVER (ORDER BY link_id) AS number FROM read_model.links
), detailed AS (
    UPDATE read_model.links AS l
    SET title = 'Offer ' || n.number,
        external_id = 'offer/' || n.number,
        tags = CASE WHEN n.number % 100 = 0 THEN ARRAY['print', 'spring'] ELSE ARRAY['spring'] END,
        expires_at = CASE n.number % 20 WHEN 1 THEN l.created_at WHEN 2 THEN l.created_at + interval '1 year' END,
        disabled_by = CASE WHEN n.number % 100 = 50 THEN 'owner' END
    FROM numbered AS n
    WHERE l.link_id = n.link_id
    RETURNING l.generation, l.account_id, l.link_id, l.tags
)
INSERT INTO read_model.link_tags (generation, account_id, tag, link_id)
SELECT generation, account_id, unnest(tags), link_id FROM detailed
