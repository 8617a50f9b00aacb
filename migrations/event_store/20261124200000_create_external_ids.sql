-- The link with each external id of an account: an external id is unique among the links of the
-- account that are not deleted. Written by the append of the events, under the account's lock;
-- derived from the log, and checked by `log verify`.
-- A new table; the release before writes no links with external ids.
CREATE TABLE event_store.external_ids (
    account_id uuid NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    link_id uuid NOT NULL,
    CONSTRAINT external_ids_pkey PRIMARY KEY (account_id, external_id)
);
