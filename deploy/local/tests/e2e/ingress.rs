//! `deploy/ingress` with a real nginx. The tests do nothing unless `LINKLEDGER_TEST_NGINX` names
//! the program, as `.ci/ingress` does.

mod alone;
mod deployment;
mod fixture;
mod hostile;
mod load;
mod nginx;
mod stub;
mod together;
