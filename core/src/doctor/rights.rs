//! Checks that the role of a process has exactly the needed privileges.

use sqlx::{FromRow, PgPool};

use super::{Finding, Severity};

/// A table and a privilege on the table: SELECT, INSERT, UPDATE or DELETE. Privileges on columns
/// count.
pub type Privilege = (&'static str, &'static str);

#[derive(FromRow)]
struct Role {
    name: String,
    is_superuser: bool,
    owns_events: bool,
}

/// Compares the needed privileges with those of the current role.
///
/// # Errors
/// Returns an error if the server does not answer or lacks a table.
pub async fn judge(
    pool: &PgPool,
    needed: &[Privilege],
    role_of_grants: &str,
) -> sqlx::Result<Vec<Finding>> {
    let role: Role = sqlx::query_as(
        "SELECT current_user::text AS name,
                (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
                pg_has_role(relowner, 'USAGE') AS owns_events
         FROM pg_class WHERE oid = 'event_store.events'::regclass",
    )
    .fetch_one(pool)
    .await?;
    let name = &role.name;
    let lacking = lacking(pool, needed).await?;
    let suffice = if lacking.is_empty() {
        Finding::ok(
            "rights",
            format!("{name} has all privileges that are needed"),
        )
    } else {
        Finding::new(
            "rights",
            Severity::Error,
            format!("{name} lacks {}", lacking.join(", ")),
            format!("run deploy/postgres/roles.sql, and GRANT {role_of_grants} TO {name}"),
        )
    };
    let surplus = if role.is_superuser || role.owns_events {
        Finding::new(
            "least privilege",
            Severity::Warning,
            if role.is_superuser {
                format!("{name} is a superuser")
            } else {
                format!("{name} owns the tables")
            },
            format!("connect as a user that has {role_of_grants} and nothing else"),
        )
    } else {
        Finding::ok("least privilege", format!("{name} does not own the tables"))
    };
    Ok(vec![suffice, surplus])
}

async fn lacking(pool: &PgPool, needed: &[Privilege]) -> sqlx::Result<Vec<String>> {
    let (tables, privileges): (Vec<&str>, Vec<&str>) = needed.iter().copied().unzip();
    sqlx::query_scalar(
        "SELECT needed.privilege || ' on ' || needed.name
         FROM unnest($1::text[], $2::text[]) AS needed (name, privilege)
         WHERE NOT CASE needed.privilege
                   WHEN 'DELETE' THEN has_table_privilege(needed.name, needed.privilege)
                   ELSE has_any_column_privilege(needed.name, needed.privilege) END
            OR NOT has_schema_privilege(split_part(needed.name, '.', 1), 'USAGE')",
    )
    .bind(tables)
    .bind(privileges)
    .fetch_all(pool)
    .await
}
