-- The indexes of the read models, on the tables of `bare.sql`.
ALTER TABLE bare.links ADD PRIMARY KEY (generation, account_id, link_id);
CREATE INDEX ON bare.links (hashtextextended(account_id::text || destination_url, 0), link_id);
ALTER TABLE bare.redirects ADD PRIMARY KEY (generation, slug_key);
ALTER TABLE bare.credit_entries ADD PRIMARY KEY (generation, account_id, version);
ALTER TABLE bare.credit_balances ADD PRIMARY KEY (generation, account_id);
