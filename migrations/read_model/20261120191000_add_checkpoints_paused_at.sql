-- Since when an operator keeps a projection from moving. It is kept with the checkpoint, because
-- whoever writes rows of the projection has that row locked: once the pause is committed, the last
-- batch is finished, and no other begins.
-- Takes ACCESS EXCLUSIVE on 48 rows' table for a moment (no rewrite). The release before does not
-- know the column, and goes on.
SET LOCAL lock_timeout = '2s';
ALTER TABLE read_model.checkpoints
    -- NULL: it moves.
    ADD COLUMN paused_at timestamptz;
