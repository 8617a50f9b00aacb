//! Verification of one link or one account: its rows are compared as in a whole verification, but only its
//! events are read, however many others the shard has.
//!
//! The events are read in parts of the account's stream. The charge for a link stands right behind the
//! creation of the link, so no index of links by account is needed. Orphans, which no event explains, are
//! found by a whole verification only.

use anyhow::Context as _;
use linkledger_core::{
    event::Subject,
    id::{AccountId, LinkId},
    shard::{Position, Shard},
};
use linkledger_event_store::{accounts, links, log};
use linkledger_service::databases::Databases;
use sqlx::{AssertSqlSafe, FromRow, PgPool};

use super::{
    GenerationTarget, VerificationReport,
    comparison::{ComparedEvents, Comparison},
    exceptions::Exceptions,
    findings::{ComparedRow, EventsPlace, FindingPlace},
    snapshot::ShardSnapshot,
};
use crate::{
    pipeline::retry::retried,
    read_models::{
        description::{EXCEPTIONS, NOT_SKIPPED, RowId, first_waiting_position},
        tables,
    },
};

/// Events of the account's stream in one part.
const PART_EVENTS: i64 = 1_000;

/// Link or account that exists.
#[derive(Debug, Clone, Copy)]
pub struct VerifiedSubject {
    subject: Subject,
    /// Account itself, or account that the link belongs to.
    pub account_id: AccountId,
}

/// Refusal: the subject does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSubject {
    /// The log has no such link.
    #[error("{0} does not exist: the log has no such link")]
    Link(LinkId),
    /// There is no such account.
    #[error("{0} does not exist: there is no such account")]
    Account(AccountId),
}

impl VerifiedSubject {
    /// Finds the subject.
    ///
    /// # Errors
    /// Returns [`UnknownSubject`], or an error if the database fails.
    pub async fn find(log: &PgPool, subject: Subject) -> anyhow::Result<Self> {
        let account_id = match subject {
            Subject::Account(account_id) => {
                let account = accounts::get(log, account_id).await;
                let account = account.context("cannot look the account up")?;
                account.ok_or(UnknownSubject::Account(account_id))?;
                account_id
            }
            Subject::Link(link_id) => {
                let owner = links::find_owner(log, link_id).await;
                let owner = owner.context("cannot look the link up")?;
                owner.ok_or(UnknownSubject::Link(link_id))?
            }
        };
        Ok(Self {
            subject,
            account_id,
        })
    }

    /// Returns the first part of the events; the only one of a link.
    async fn first_part(&self, log: &PgPool) -> anyhow::Result<SubjectPart> {
        let account_id = self.account_id;
        let (after, is_link) = match self.subject {
            Subject::Account(_) => (0, false),
            Subject::Link(link_id) => (charge_version(log, account_id, link_id).await? - 1, true),
        };
        Ok(SubjectPart {
            account_id,
            after,
            is_link,
        })
    }

    /// Returns the id of the link or the account.
    pub fn id(&self) -> String {
        self.subject.to_string()
    }
}

/// Returns the version of the charge for a link in the stream of its account.
async fn charge_version(
    log: &PgPool,
    account_id: AccountId,
    link_id: LinkId,
) -> anyhow::Result<i64> {
    let shard = Shard::of(account_id);
    let beginnings = log::link_beginnings(log, &[(shard, link_id)]).await;
    let creation = beginnings.context("cannot read the log")?.pop();
    let creation = creation.with_context(|| format!("the log lacks version 1 of {link_id}"))?;
    let next = log::read_at(log, shard, &[creation.position + 1]).await;
    let charge = next.context("cannot read the log")?.pop();
    let charge = charge.filter(|it| it.stream_id == account_id.uuid());
    let charge = charge.with_context(|| format!("the log lacks the charge for {link_id}"))?;
    Ok(charge.version)
}

/// Result of the verification of a link or an account.
#[derive(Debug)]
pub struct SubjectReport {
    /// Position of the shard up to which the rows were compared.
    pub applied_up_to: Position,
    /// Rows of a link; empty for an account, which may have millions.
    pub rows: Vec<ComparedRow>,
    /// Wrong rows.
    pub found: VerificationReport,
}

/// Compares the rows of a link or an account in one generation with the log.
///
/// # Errors
/// Returns an error as [`super::verify_generation`] does.
pub async fn verify(
    databases: &Databases,
    target: GenerationTarget,
    subject: &VerifiedSubject,
) -> anyhow::Result<SubjectReport> {
    let mut report = SubjectReport {
        applied_up_to: 0,
        rows: Vec::new(),
        found: VerificationReport::of(target),
    };
    let mut next = Some(subject.first_part(&databases.log).await?);
    while let Some(part) = next {
        let verified = retried(|| verify_part(databases, target, &part)).await;
        let (of_part, later) = verified.with_context(|| {
            let projection = target.projection;
            format!("cannot verify {} in `{projection}`", subject.id())
        })?;
        report.applied_up_to = of_part.applied_up_to;
        report.rows.extend(of_part.rows);
        report.found.append(of_part.found);
        next = later;
    }
    Ok(report)
}

/// Compares the rows of one part; also returns the next part.
async fn verify_part(
    databases: &Databases,
    target: GenerationTarget,
    part: &SubjectPart,
) -> anyhow::Result<(SubjectReport, Option<SubjectPart>)> {
    let mut snapshot = ShardSnapshot::begin(databases, target, part.shard()).await?;
    let (exceptions, events) = part.read(&mut snapshot).await?;
    let mut found = VerificationReport::of(target);
    found.events = events.count;
    let mut rows = Vec::new();
    for table in tables(target.projection) {
        if part.is_link && table.row_id == RowId::Account {
            continue;
        }
        let mut comparison =
            Comparison::make(&mut snapshot, table, &exceptions, &events.compared).await?;
        if part.is_link {
            rows.extend(comparison.all_rows().await?);
        }
        let place = FindingPlace::Rows {
            table,
            events: EventsPlace::Subject(*part),
        };
        comparison.report(place, &mut found).await?;
    }
    let applied_up_to = snapshot.checkpoint;
    snapshot.tx.commit().await?;
    let report = SubjectReport {
        applied_up_to,
        rows,
        found,
    };
    Ok((report, events.next))
}

/// Some events of an account's stream, and of the links that they charge for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SubjectPart {
    account_id: AccountId,
    /// Version of the account's stream before the part.
    after: i64,
    /// True if the part is the charge for one link.
    is_link: bool,
}

/// Events of a part up to the checkpoint.
pub(super) struct PartEvents {
    /// Number of the events.
    count: u64,
    /// The account's events, and the last applied events of the links.
    pub(super) compared: ComparedEvents,
    /// Next part; `None` if this part is the last one.
    next: Option<SubjectPart>,
}

/// Row of [`events_of_part`].
#[derive(FromRow)]
struct PartRow {
    version: i64,
    position: Position,
    link_position: Option<Position>,
}

impl SubjectPart {
    pub(super) fn shard(&self) -> Shard {
        Shard::of(self.account_id)
    }

    /// Reads the events of the part, with the exceptions of the account.
    ///
    /// # Errors
    /// Returns an error if a database fails.
    pub(super) async fn read(
        &self,
        snapshot: &mut ShardSnapshot,
    ) -> anyhow::Result<(Exceptions, PartEvents)> {
        let account_ids = [self.account_id.uuid()];
        let exceptions =
            Exceptions::of_accounts(&mut snapshot.tx, snapshot.target, &account_ids).await?;
        let events_max = if self.is_link { 1 } else { PART_EVENTS };
        let rows: Vec<PartRow> = exceptions
            .bind(sqlx::query_as(AssertSqlSafe(events_of_part())))
            .bind(snapshot.shard.number())
            .bind(snapshot.checkpoint)
            .bind(self.account_id.uuid())
            .bind(self.after)
            .bind(events_max)
            .fetch_all(&snapshot.log)
            .await
            .context("cannot read the events of the account")?;
        let positions = rows.iter();
        let positions = positions.flat_map(|row| [Some(row.position), row.link_position]);
        let positions: Vec<Position> = positions.flatten().collect();
        let is_full = i64::try_from(rows.len()) == Ok(PART_EVENTS) && !self.is_link;
        let last = rows.last().filter(|_| is_full);
        let events = PartEvents {
            count: positions.len() as u64,
            compared: ComparedEvents::Positions(self.account_id, positions),
            next: last.map(|last| Self {
                after: last.version,
                ..*self
            }),
        };
        Ok((exceptions, events))
    }
}

/// Returns the statement on the log of up to `$10` events of the stream of the account `$8` after the
/// version `$9`; of a charge for a link, also the position of the last applied event of the link. The
/// creation of a link may be applied while its charge waits.
pub fn events_of_part() -> String {
    let first_waiting_position = first_waiting_position("$8::uuid");
    format!(
        "WITH {EXCEPTIONS}, bound AS MATERIALIZED (
            SELECT least($7::bigint, {first_waiting_position} - 1) AS applied_up_to
        ), next AS MATERIALIZED (
            SELECT e.version, e.position FROM event_store.events AS e
            WHERE e.shard = $6 AND e.stream_id = $8 AND e.version > $9
              AND e.position - 1 <= (SELECT applied_up_to FROM bound)
            ORDER BY e.version
            LIMIT $10::bigint
        )
        SELECT next.version, next.position, link.position AS link_position
        FROM next
        LEFT JOIN LATERAL (
            SELECT stream_id, account_id, version FROM event_store.events
            WHERE shard = $6 AND position = next.position - 1
            LIMIT 1
        ) AS first ON first.account_id = $8 AND first.stream_id <> $8 AND first.version = 1
        LEFT JOIN LATERAL (
            SELECT e.position FROM event_store.events AS e
            WHERE e.shard = $6 AND e.stream_id = first.stream_id
              AND e.position <= (SELECT applied_up_to FROM bound) AND {NOT_SKIPPED}
            ORDER BY e.version DESC
            LIMIT 1
        ) AS link ON true
        ORDER BY next.version"
    )
}
