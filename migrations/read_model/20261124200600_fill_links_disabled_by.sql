-- Until now only operators disabled links: those that redirects knows as disabled get the role. If the release before
-- applies a further one before the projector is upgraded, `projector verify --repair` adds its role.
-- Locks the rows of disabled links.
UPDATE read_model.links AS l
SET disabled_by = 'operator'
FROM read_model.redirects AS r
JOIN read_model.projections AS p
  ON p.projection = 'redirects' AND p.active_generation = r.generation
WHERE r.state = 'disabled' AND l.account_id = r.account_id AND l.link_id = r.link_id
  AND l.generation IN (SELECT generation FROM read_model.generations WHERE projection = 'links');
