//! `deploy/ingress` with a real nginx, where this run of the tests has one (`.ci/ingress`).

mod alone;
mod deployment;
mod hostile;
mod load;
mod nginx;
mod stage;
mod stub;
mod together;
