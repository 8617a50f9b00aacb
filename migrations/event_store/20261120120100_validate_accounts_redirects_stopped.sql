-- Takes SHARE UPDATE EXCLUSIVE on accounts while it reads them: nobody waits.
ALTER TABLE event_store.accounts VALIDATE CONSTRAINT accounts_redirects_stopped_suspended;
