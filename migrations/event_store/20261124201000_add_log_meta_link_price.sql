-- Price of a link, in credits: the setting of the command-api that started last, which query-api shows. The default is
-- that of the setting. Takes ACCESS EXCLUSIVE on one row's table for a moment (no rewrite). The release before does not
-- know the column.
SET LOCAL lock_timeout = '2s';
ALTER TABLE event_store.log_meta
    ADD COLUMN link_price bigint NOT NULL DEFAULT 1
        CONSTRAINT log_meta_link_price_not_negative CHECK (link_price >= 0);
