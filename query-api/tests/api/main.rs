//! query-api over HTTP, with a real Postgres.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod access;
mod api_keys;
mod click_figures;
mod click_figures_csv;
mod click_figures_plans;
mod click_figures_tables;
mod click_figures_top;
mod clicks;
mod connections;
mod credits;
mod docs;
mod expiry;
mod follow_link;
mod get_link;
mod gone;
mod later_release;
mod link_filters;
mod link_search;
mod list_links;
mod order_of_checks;
mod parked_account;
mod plans;
mod problem_pages;
mod process;
mod qr_codes;
mod read_tables;
mod redirect_cache;
mod replicas;
mod restarted_server;
mod service;
mod silent_database;
mod statements;
mod telemetry;
mod two_servers;
mod two_tenants;
