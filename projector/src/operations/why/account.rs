//! Comparison of an account's rows with the log.

use anyhow::Context as _;
use linkledger_core::{
    account::AccountStatus, envelope::RecordedEvent, event::Event, event_store::accounts,
    id::AccountId,
};

use super::{
    ProjectionWhy, ShownRow,
    link::in_words,
    snapshot::{RowsSnapshot, SubjectCheckpoint},
    stream::Stream,
    wording::{behind, named, unjudged},
};
use crate::{operations::figures::grouped, read_models::Projection};

/// Maximum number of events of the account's status to pass on the way back to its last
/// credits event.
const STATUS_EVENTS_MAX: usize = 100;

pub(super) async fn explain(
    stream: &Stream<'_>,
    account_id: AccountId,
    snapshot: &RowsSnapshot,
    checkpoint: &SubjectCheckpoint,
) -> anyhow::Result<ProjectionWhy> {
    let (shows, agrees, sentence) = match checkpoint.projection {
        Projection::Credits => balance(stream, snapshot, checkpoint).await?,
        Projection::Links => {
            let shows = ShownRow::Links {
                links: snapshot.links,
            };
            // Counting the links that the log wants is the work of `verify`.
            (Some(shows.clone()), None, in_words(&shows))
        }
        Projection::Redirects => stopped(stream, account_id, snapshot, checkpoint).await?,
    };
    let behind = behind(stream, checkpoint);
    let (agrees, rest) = match unjudged(stream, checkpoint) {
        Some(unjudged) => (None, format!("; {unjudged}")),
        None if agrees == Some(false) => (
            agrees,
            format!(
                "; that differs from what the log says: run `projector verify {}`",
                checkpoint.projection
            ),
        ),
        None => (agrees, String::new()),
    };
    let why = format!("{sentence}{behind}{rest}");
    Ok(ProjectionWhy::new(checkpoint, shows, agrees, why))
}

/// Row, comparison with the log, and sentence about the row.
type RowAndSentence = (Option<ShownRow>, Option<bool>, String);

/// Balance that the log wants.
enum WantedBalance {
    /// Balance after this event.
    Balance(Box<RecordedEvent>, i64),
    /// No event has changed the balance yet.
    NoRow,
    /// This release cannot read the event that changed the balance last, or the event is too far
    /// back.
    Unknown,
}

async fn balance(
    stream: &Stream<'_>,
    snapshot: &RowsSnapshot,
    checkpoint: &SubjectCheckpoint,
) -> anyhow::Result<RowAndSentence> {
    let wanted = wanted_balance(stream, checkpoint).await?;
    let shows = snapshot.balance.clone();
    let agrees = match (&shows, &wanted) {
        (_, WantedBalance::Unknown) => None,
        (None, WantedBalance::NoRow) => Some(true),
        (Some(row), WantedBalance::Balance(event, balance)) => {
            Some(row.balance == *balance && row.version == event.version)
        }
        (None, WantedBalance::Balance(..)) | (Some(_), WantedBalance::NoRow) => Some(false),
    };
    let sentence = match (&shows, &wanted) {
        (Some(row), WantedBalance::Balance(event, _)) if agrees == Some(true) => {
            let balance = grouped(row.balance);
            format!("shows a balance of {balance} as of {}", named(event))
        }
        (Some(row), _) => in_words(&ShownRow::Balance(row.clone())),
        (None, _) => "shows no balance".to_owned(),
    };
    Ok((shows.map(ShownRow::Balance), agrees, sentence))
}

/// Returns the last applied event that changed the balance.
async fn wanted_balance(
    stream: &Stream<'_>,
    checkpoint: &SubjectCheckpoint,
) -> anyhow::Result<WantedBalance> {
    let Some(mut event) = stream.last_up_to(checkpoint.applied_up_to()).await? else {
        return Ok(WantedBalance::NoRow);
    };
    for _ in 0..STATUS_EVENTS_MAX {
        match event.decode() {
            Ok(Event::Credits(credits)) => {
                let balance = credits.balance_after();
                return Ok(WantedBalance::Balance(Box::new(event), balance));
            }
            Ok(Event::Account(_)) if event.version > 1 => {
                event = stream.version(event.version - 1).await?;
            }
            Ok(Event::Account(_)) => return Ok(WantedBalance::NoRow),
            Ok(Event::Link(_)) | Err(_) => return Ok(WantedBalance::Unknown),
        }
    }
    Ok(WantedBalance::Unknown)
}

async fn stopped(
    stream: &Stream<'_>,
    account_id: AccountId,
    snapshot: &RowsSnapshot,
    checkpoint: &SubjectCheckpoint,
) -> anyhow::Result<RowAndSentence> {
    let redirects_stopped = snapshot.is_stopped;
    let account = accounts::find(stream.pool, account_id).await;
    let account = account.context("cannot look the account up")?;
    // The account's row is as new as the log, and therefore comparable only if every event is
    // applied.
    let is_comparable = |version: i64| match stream.last() {
        Some(last) => last.version == version && last.position <= checkpoint.applied_up_to(),
        None => version == 0,
    };
    let agrees = account
        .filter(|it| is_comparable(it.credits.version))
        .map(|account| {
            let wanted = matches!(
                account.status,
                AccountStatus::Suspended {
                    stop_redirects: true
                }
            );
            wanted == redirects_stopped
        });
    let shows = ShownRow::Stopped { redirects_stopped };
    let sentence = in_words(&shows);
    Ok((Some(shows), agrees, sentence))
}
