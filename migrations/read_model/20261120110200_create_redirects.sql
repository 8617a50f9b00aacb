-- Projection `redirects`: what is needed to follow a short link.
CREATE TABLE read_model.redirects (
    generation integer NOT NULL,
    slug_folded text COLLATE "C" NOT NULL,
    link_id uuid NOT NULL,
    account_id uuid NOT NULL,
    destination_url text NOT NULL,
    CONSTRAINT redirects_pkey PRIMARY KEY (generation, slug_folded)
) PARTITION BY LIST (generation);

CREATE TABLE read_model.redirects_1 PARTITION OF read_model.redirects FOR VALUES IN (1);
