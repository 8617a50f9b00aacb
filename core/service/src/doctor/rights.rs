//! Checks that the role of a process has exactly the needed privileges.

use sqlx::PgPool;

use super::{Finding, Severity};

/// A table and a privilege on the table: SELECT, INSERT, UPDATE or DELETE, on any of its columns, or
/// `UPDATE (column)`.
pub type Privilege = (&'static str, &'static str);

/// Compares the needed privileges with those of the current role.
///
/// # Errors
/// Returns an error if the server does not answer or lacks a table.
pub async fn judge(
    pool: &PgPool,
    needed: &[Privilege],
    role_of_grants: &str,
) -> sqlx::Result<Vec<Finding>> {
    let tables: Vec<&str> = needed.iter().map(|(table, _)| *table).collect();
    let (name, is_superuser, owns_tables): (String, bool, bool) = sqlx::query_as(
        "SELECT current_user::text AS name,
                (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
                EXISTS (
                    SELECT FROM unnest($1::text[]) AS needed (name)
                    JOIN pg_class ON oid = to_regclass(needed.name)
                    WHERE pg_has_role(relowner, 'USAGE')
                ) AS owns_tables",
    )
    .bind(tables)
    .fetch_one(pool)
    .await?;
    let lacking = lacking(pool, needed).await?;
    let suffice = if lacking.is_empty() {
        let is = format!("{name} has all privileges that are needed");
        Finding::ok("rights", is)
    } else {
        let remedy = format!("run deploy/postgres/roles.sql, and GRANT {role_of_grants} TO {name}");
        let is = format!("{name} lacks {}", lacking.join(", "));
        Finding::error("rights", is, remedy)
    };
    let surplus = if is_superuser || owns_tables {
        let reason = if is_superuser {
            "is a superuser"
        } else {
            "owns the tables"
        };
        let remedy = format!("connect as a user that has {role_of_grants} and nothing else");
        let is = format!("{name} {reason}");
        Finding::new("least privilege", Severity::Warning, is, remedy)
    } else {
        Finding::ok("least privilege", format!("{name} does not own the tables"))
    };
    Ok(vec![suffice, surplus])
}

async fn lacking(pool: &PgPool, needed: &[Privilege]) -> sqlx::Result<Vec<String>> {
    let (tables, privileges): (Vec<&str>, Vec<&str>) = needed.iter().copied().unzip();
    sqlx::query_scalar(
        "SELECT needed.privilege || ' on ' || needed.name
         FROM (
             SELECT name, privilege, substring(privilege FROM '[(](.*)[)]') AS of_column
             FROM unnest($1::text[], $2::text[]) AS given (name, privilege)
         ) AS needed
         WHERE NOT CASE
                   WHEN needed.of_column IS NOT NULL
                       THEN has_column_privilege(needed.name, needed.of_column, split_part(needed.privilege, ' ', 1))
                   WHEN needed.privilege = 'DELETE' THEN has_table_privilege(needed.name, needed.privilege)
                   ELSE has_any_column_privilege(needed.name, needed.privilege) END
            OR NOT has_schema_privilege(split_part(needed.name, '.', 1), 'USAGE')",
    )
    .bind(tables)
    .bind(privileges)
    .fetch_all(pool)
    .await
}
