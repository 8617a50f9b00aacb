-- Tables for the rows of the read models, without an index.
CREATE SCHEMA bare;
CREATE TABLE bare.links (LIKE read_model.links);
CREATE TABLE bare.redirects (LIKE read_model.redirects INCLUDING CONSTRAINTS);
CREATE TABLE bare.credit_entries (LIKE read_model.credit_entries INCLUDING CONSTRAINTS);
CREATE TABLE bare.credit_balances (LIKE read_model.credit_balances);
