//! What the read tables should show of an account, and why they do or don't.

use anyhow::Context as _;
use linkledger_core::{
    account::AccountStatus, envelope::RecordedEvent, event::Event, event_store::accounts,
    id::AccountId,
};

use super::{
    ProjectionWhy, Shows,
    link::in_words,
    moment::{Moment, Standing},
    stream::Stream,
    wording::{behind, named, unjudged},
};
use crate::{operations::figures::grouped, read_models::Projection};

/// Most events of the account's status that are passed on the way back to one of its credits.
const STATUS_EVENTS_MAX: usize = 100;

pub(super) async fn explain(
    stream: &Stream<'_>,
    account_id: AccountId,
    moment: &Moment,
    standing: &Standing,
) -> anyhow::Result<ProjectionWhy> {
    let (shows, agrees, sentence) = match standing.projection {
        Projection::Credits => balance(stream, moment, standing).await?,
        Projection::Links => {
            let shows = Shows::Links {
                links: moment.links,
            };
            // To count what the log wants is the work of `verify`.
            (Some(shows.clone()), None, in_words(&shows))
        }
        Projection::Redirects => stopped(stream, account_id, moment, standing).await?,
    };
    let behind = behind(stream, standing);
    let (agrees, rest) = match unjudged(stream, standing) {
        Some(unjudged) => (None, format!("; {unjudged}")),
        None if agrees == Some(false) => (
            agrees,
            format!(
                "; that differs from what the log says: run `projector verify {}`",
                standing.projection
            ),
        ),
        None => (agrees, String::new()),
    };
    let why = format!("{sentence}{behind}{rest}");
    Ok(ProjectionWhy::new(standing, shows, agrees, why))
}

/// What is shown, whether that is right, and the first in words.
type Told = (Option<Shows>, Option<bool>, String);

/// What the balance should be.
enum Wanted {
    /// As of this event.
    Balance(Box<RecordedEvent>, i64),
    /// Nothing has changed it yet.
    NoRow,
    /// This release can't read what has changed it last, or it is too far back.
    Unknown,
}

async fn balance(
    stream: &Stream<'_>,
    moment: &Moment,
    standing: &Standing,
) -> anyhow::Result<Told> {
    let wanted = wanted_balance(stream, standing).await?;
    let shows = moment.balance.clone();
    let agrees = match (&shows, &wanted) {
        (_, Wanted::Unknown) => None,
        (None, Wanted::NoRow) => Some(true),
        (Some(row), Wanted::Balance(event, balance)) => {
            Some(row.balance == *balance && row.version == event.version)
        }
        (None, Wanted::Balance(..)) | (Some(_), Wanted::NoRow) => Some(false),
    };
    let sentence = match (&shows, &wanted) {
        (Some(row), Wanted::Balance(event, _)) if agrees == Some(true) => {
            let balance = grouped(row.balance);
            format!("shows a balance of {balance} as of {}", named(event))
        }
        (Some(row), _) => in_words(&Shows::Balance(row.clone())),
        (None, _) => "shows no balance".to_owned(),
    };
    Ok((shows.map(Shows::Balance), agrees, sentence))
}

/// The last event that has changed the balance, of those that are applied.
async fn wanted_balance(stream: &Stream<'_>, standing: &Standing) -> anyhow::Result<Wanted> {
    let Some(mut event) = stream.last_up_to(standing.applied_up_to()).await? else {
        return Ok(Wanted::NoRow);
    };
    for _ in 0..STATUS_EVENTS_MAX {
        match event.decode() {
            Ok(Event::Credits(credits)) => {
                let balance = credits.balance_after();
                return Ok(Wanted::Balance(Box::new(event), balance));
            }
            Ok(Event::Account(_)) if event.version > 1 => {
                event = stream.version(event.version - 1).await?;
            }
            Ok(Event::Account(_)) => return Ok(Wanted::NoRow),
            Ok(Event::Link(_)) | Err(_) => return Ok(Wanted::Unknown),
        }
    }
    Ok(Wanted::Unknown)
}

async fn stopped(
    stream: &Stream<'_>,
    account_id: AccountId,
    moment: &Moment,
    standing: &Standing,
) -> anyhow::Result<Told> {
    let redirects_stopped = moment.is_stopped;
    let account = accounts::find(stream.pool, account_id).await;
    let account = account.context("can't look the account up")?;
    // Its row is as new as the log; it tells what is wanted only where all of that is applied.
    let is_comparable = |version: i64| match stream.last() {
        Some(last) => last.version == version && last.position <= standing.applied_up_to(),
        None => version == 0,
    };
    let agrees = account
        .filter(|it| is_comparable(it.credits.version))
        .map(|it| {
            let wanted = matches!(
                it.status,
                AccountStatus::Suspended {
                    stop_redirects: true
                }
            );
            wanted == redirects_stopped
        });
    let shows = Shows::Stopped { redirects_stopped };
    let sentence = in_words(&shows);
    Ok((Some(shows), agrees, sentence))
}
