//! Lines about the counting of clicks.

use linkledger_core::timestamp;

use crate::operations::{
    figures::{counted, duration},
    status::clicks::ClickStatus,
};

/// Returns the lines about recorders and figures.
pub(super) fn lines(status: &ClickStatus) -> [String; 2] {
    let recorders = match status.recorders {
        0 => "clicks: no recorder sends heartbeats: query-api is stopped, runs with --no-clicks, or cannot reach \
              Postgres"
            .to_owned(),
        recorders => format!(
            "clicks: {} alive",
            counted(recorders.unsigned_abs(), "recorder")
        ),
    };
    [recorders, counting_line(status)]
}

fn counting_line(it: &ClickStatus) -> String {
    let ago = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{} ago", duration(seconds)),
        None => "never".to_owned(),
    };
    let complete = match it.complete_until {
        Some(until) if it.recorders == 0 => format!("complete until {}", timestamp::format(until)),
        Some(_) => format!("complete until {} ago", duration(it.lag_seconds)),
        None => "not complete yet".to_owned(),
    };
    let mut line = format!(
        "clicks: {complete}, read to the end of the topic {}, last batch {}",
        ago(it.read_to_end_seconds_ago),
        ago(it.last_batch_seconds_ago)
    );
    if it.missing > 0 {
        let missing = counted(it.missing.unsigned_abs(), "record");
        line.extend([", ", &missing, " lost"]);
    }
    if let Some(since) = it.paused_at {
        line.extend([", paused since ", &timestamp::format(since)]);
        line.extend(it.paused_by.iter().map(|by| format!(" {by}")));
    }
    line
}
