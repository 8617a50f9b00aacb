//! Comparison of an account's rows with the log.

use linkledger_core::{
    account::AccountStatus, envelope::RecordedEvent, event::Event,
    event_store::accounts::StoredAccount,
};

use super::{
    ProjectionWhy, ShownRow,
    snapshot::SubjectCheckpoint,
    stream::SubjectStream,
    wording::{NOT_SHOWN, behind, in_words, named, unjudged},
};
use crate::{
    operations::figures::grouped,
    read_models::{credits::lookup::BalanceRow, description::WhyRows},
};

/// Maximum number of events of the account's status to pass on the way back to its last
/// credits event.
const STATUS_EVENTS_MAX: usize = 100;

pub(super) async fn explain(
    stream: &SubjectStream<'_>,
    account: &StoredAccount,
    checkpoint: &SubjectCheckpoint,
) -> anyhow::Result<ProjectionWhy> {
    let (agrees, sentence) = match &checkpoint.shows {
        Some(ShownRow::Balance(row)) => balance(stream, checkpoint, Some(row)).await?,
        None if checkpoint.rows() == WhyRows::None => (None, NOT_SHOWN.to_owned()),
        None => balance(stream, checkpoint, None).await?,
        Some(row @ ShownRow::Stopped { redirects_stopped }) => {
            let agrees = stopped_agrees(stream, account, checkpoint, *redirects_stopped);
            (agrees, in_words(row))
        }
        // Counting the links that the log wants is the work of `verify`.
        Some(row) => (None, in_words(row)),
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
    Ok(ProjectionWhy::new(checkpoint, agrees, why))
}

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

/// Compares the balance with the log. Returns the result, and a sentence about the row.
async fn balance(
    stream: &SubjectStream<'_>,
    checkpoint: &SubjectCheckpoint,
    shows: Option<&BalanceRow>,
) -> anyhow::Result<(Option<bool>, String)> {
    let wanted = wanted_balance(stream, checkpoint).await?;
    let agrees = match (shows, &wanted) {
        (_, WantedBalance::Unknown) => None,
        (None, WantedBalance::NoRow) => Some(true),
        (Some(row), WantedBalance::Balance(event, balance)) => {
            Some(row.balance == *balance && row.version == event.version)
        }
        (None, WantedBalance::Balance(..)) | (Some(_), WantedBalance::NoRow) => Some(false),
    };
    let sentence = match (shows, &wanted) {
        (Some(row), WantedBalance::Balance(event, _)) if agrees == Some(true) => {
            let balance = grouped(row.balance);
            format!("shows a balance of {balance} as of {}", named(event))
        }
        (Some(row), _) => in_words(&ShownRow::Balance(row.clone())),
        (None, _) => "shows no balance".to_owned(),
    };
    Ok((agrees, sentence))
}

/// Returns the last applied event that changed the balance.
async fn wanted_balance(
    stream: &SubjectStream<'_>,
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

/// Compares the state of the redirects with the account. The account is as new as the log, and
/// therefore comparable only if every event is applied.
fn stopped_agrees(
    stream: &SubjectStream<'_>,
    account: &StoredAccount,
    checkpoint: &SubjectCheckpoint,
    redirects_stopped: bool,
) -> Option<bool> {
    let version = account.credits.version;
    let is_comparable = match stream.last() {
        Some(last) => last.version == version && last.position <= checkpoint.applied_up_to(),
        None => version == 0,
    };
    let wanted = matches!(
        account.status,
        AccountStatus::Suspended {
            stop_redirects: true
        }
    );
    is_comparable.then_some(wanted == redirects_stopped)
}
