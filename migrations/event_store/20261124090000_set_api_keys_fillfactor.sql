-- Room in each page for updates of `last_used_at`: an update within its page writes no index. Holds for pages
-- that are written from now on; a full page gets room when its rows have moved. Takes SHARE UPDATE EXCLUSIVE,
-- which no request waits for. The release before does not notice.
SET LOCAL lock_timeout = '2s';

ALTER TABLE event_store.api_keys SET (fillfactor = 80);
