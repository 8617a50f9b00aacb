-- Random salts of visitors' hashes, one for each UTC day. The projector makes a salt before its day begins and
-- deletes it 48 hours after its day began; recorders only read.
CREATE TABLE clicks.salts (
    day date NOT NULL,
    salt bytea NOT NULL CHECK (octet_length(salt) = 16),
    CONSTRAINT salts_pkey PRIMARY KEY (day)
);
