//! The two databases of the services that read: the log, and the read tables. Both are one database
//! unless the read tables have a server of their own.

use std::str::FromStr as _;

use clap::Args;
use sqlx::{PgPool, postgres::PgConnectOptions};

use linkledger_core::config::{Secret, parse_database_url};
use linkledger_event_store::{SessionKind, migrations::Schema};

/// Addresses of the two databases.
#[derive(Debug, Clone, Args)]
pub struct DatabaseSettings {
    /// Address of the Postgres database: postgres://user:password@host:port/name; `-` reads it from
    /// standard input.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_parser = parse_database_url)]
    pub database_url: Secret,
    /// Address of the database of the log, schema `event_store` [default: --database-url].
    #[arg(long, env = "LOG_DATABASE_URL", hide_env_values = true)]
    pub log_database_url: Option<Secret>,
    /// Address of the database of the read tables, schema `read_model` [default: --database-url].
    #[arg(long, env = "READ_DATABASE_URL", hide_env_values = true)]
    pub read_database_url: Option<Secret>,
}

/// One of the databases, and the schemas that the service uses there.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseOf<'a> {
    /// Address of the database.
    pub url: &'a str,
    /// Schemas that the service uses in this database.
    pub schemas: &'static [Schema],
}

impl DatabaseSettings {
    /// Returns the settings of one database with both schemas.
    pub fn one(url: impl Into<String>) -> Self {
        Self {
            database_url: Secret::from(url.into()),
            log_database_url: None,
            read_database_url: None,
        }
    }

    /// Returns the address of the log.
    pub fn log_url(&self) -> &str {
        let url = self.log_database_url.as_ref();
        url.unwrap_or(&self.database_url).reveal()
    }

    /// Returns the address of the read tables.
    pub fn read_url(&self) -> &str {
        let url = self.read_database_url.as_ref();
        url.unwrap_or(&self.database_url).reveal()
    }

    /// Returns every database once: one with both schemas, or two with one schema each.
    pub fn all(&self) -> Vec<DatabaseOf<'_>> {
        let (log, read) = (self.log_url(), self.read_url());
        if log == read {
            return vec![DatabaseOf {
                url: log,
                schemas: &Schema::ALL,
            }];
        }
        let of = |url, schemas| DatabaseOf { url, schemas };
        vec![of(log, &[Schema::EventStore]), of(read, &Schema::READ)]
    }

    /// Returns pools of up to `connections_max` sessions each; one pool if there is one database.
    ///
    /// # Errors
    /// Returns an error if an address cannot be parsed.
    pub fn pools(&self, kind: SessionKind, connections_max: u32) -> sqlx::Result<Databases> {
        self.pools_by(|url| linkledger_event_store::pool(url, kind, connections_max))
    }

    /// Returns the pools that `pool` makes of the addresses; one pool if there is one database.
    ///
    /// # Errors
    /// Returns the error of `pool`.
    pub fn pools_by(&self, pool: impl Fn(&str) -> sqlx::Result<PgPool>) -> sqlx::Result<Databases> {
        let (log_url, read_url) = (self.log_url(), self.read_url());
        let log = pool(log_url)?;
        let read = if log_url == read_url {
            log.clone()
        } else {
            pool(read_url)?
        };
        Ok(Databases { log, read })
    }
}

impl DatabaseOf<'_> {
    /// Returns host, port and name of the database, without user and password.
    pub fn address(&self) -> String {
        PgConnectOptions::from_str(self.url).map_or_else(
            |_| "a malformed address".to_owned(),
            |options| {
                let (host, port) = (options.get_host(), options.get_port());
                format!(
                    "{host}:{port}/{}",
                    options.get_database().unwrap_or_default()
                )
            },
        )
    }
}

/// Pools of the two databases; clones of one pool if there is one database.
#[derive(Debug, Clone)]
pub struct Databases {
    /// Sessions with the log: schema `event_store`.
    pub log: PgPool,
    /// Sessions with the read tables: schema `read_model`.
    pub read: PgPool,
}

impl Databases {
    /// Closes the pools.
    pub async fn close(&self) {
        self.log.close().await;
        self.read.close().await;
    }
}

/// One database with both schemas.
impl From<PgPool> for Databases {
    fn from(pool: PgPool) -> Self {
        Self {
            log: pool.clone(),
            read: pool,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        settings: DatabaseSettings,
    }

    fn parse(arguments: &str) -> DatabaseSettings {
        let arguments = std::iter::once("x").chain(arguments.split_whitespace());
        Cli::try_parse_from(arguments).unwrap().settings
    }

    #[test]
    fn one_address_is_one_database_with_both_schemas() {
        for arguments in [
            "--database-url a",
            "--database-url a --read-database-url a",
            "--database-url b --log-database-url a --read-database-url a",
        ] {
            let settings = parse(arguments);
            let [only] = settings.all()[..] else {
                panic!("{arguments}");
            };
            assert_eq!((only.url, only.schemas), ("a", &Schema::ALL[..]));
        }
    }

    #[test]
    fn other_address_of_read_tables_is_second_database() {
        for arguments in [
            "--database-url a --read-database-url b",
            "--database-url b --log-database-url a",
            "--database-url c --log-database-url a --read-database-url b",
        ] {
            let settings = parse(arguments);
            let [log, read] = settings.all()[..] else {
                panic!("{arguments}");
            };
            assert_eq!((log.url, log.schemas), ("a", &[Schema::EventStore][..]));
            assert_eq!((read.url, read.schemas), ("b", &Schema::READ[..]));
        }
    }
}
