//! The summary of an import on the terminal: counts, credits, and the first refused links.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use linkledger_core::printable::printable;
use linkledger_service::number_format::{counted, grouped};

use super::{
    lines::ImportFile,
    sending::{INSUFFICIENT_CREDITS, ImportOutcome, LineOutcome},
};
use crate::{client::batch::BatchMode, output::note};

/// Number of refused lines that are shown; `--refused FILE` has all of them.
const SHOWN_MAX: usize = 20;

/// Counts of outcomes.
#[derive(Debug, Default)]
pub(super) struct ImportSummary {
    created: u64,
    existing: u64,
    /// Number of refused lines for each error code.
    refused: BTreeMap<String, u64>,
    /// Number of lines whose outcome is unknown, since the import stopped.
    unknown: u64,
}

impl ImportSummary {
    pub(super) fn of(outcome: &ImportOutcome) -> Self {
        let mut summary = Self::default();
        for line in &outcome.lines {
            match line {
                Some(LineOutcome::Created { .. }) => summary.created += 1,
                Some(LineOutcome::Existing { .. }) => summary.existing += 1,
                Some(LineOutcome::Refused { code, .. }) => {
                    *summary.refused.entry(code.clone()).or_default() += 1;
                }
                None => summary.unknown += 1,
            }
        }
        summary
    }

    /// Returns the number of lines that the balance did not cover.
    pub(super) fn unpaid(&self) -> u64 {
        let unpaid = self.refused.get(INSUFFICIENT_CREDITS);
        unpaid.copied().unwrap_or_default()
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Returns the last lines of the output: the number of lines of each outcome and error code, and
    /// after a dry run the credits.
    pub(super) fn text(&self, outcome: &ImportOutcome, mode: BatchMode, took: Duration) -> String {
        let lines = counted(outcome.lines.len() as u64, "line");
        let [created, existing, refused, unknown] =
            [self.created, self.existing, self.refused(), self.unknown]
                .map(|count| grouped(count.cast_signed()));
        let seconds = took.as_secs_f64();
        let verb = match mode {
            BatchMode::Partial => "created",
            BatchMode::DryRun => "would be created",
        };
        let mut text = format!(
            "{lines} in {seconds:.1} s: {created} {verb}, {existing} created before, \
             {refused} refused"
        );
        if self.unknown > 0 {
            write!(text, ", {unknown} unknown").expect("writing to a string never fails");
        }
        text.push('\n');
        for (code, count) in &self.refused {
            let code = printable(code);
            writeln!(text, "  {count:>8}  {code}").expect("writing to a string never fails");
        }
        if mode == BatchMode::DryRun {
            text.push_str(&cost(outcome));
        }
        text
    }
}

/// Returns the line on the credits of a dry run.
fn cost(outcome: &ImportOutcome) -> String {
    let cost = counted(outcome.credits_charged.unsigned_abs(), "credit");
    let Some(balance) = outcome.credits_before else {
        return format!("Cost: {cost}\n");
    };
    let mut text = format!("Cost: {cost}; balance: {}", grouped(balance));
    let missing = outcome.missing_credits();
    if missing > 0 {
        write!(text, "; missing: {}", grouped(missing)).expect("writing to a string never fails");
    }
    text + "\n"
}

/// Prints the first refused lines to standard error.
pub(super) fn note_refused(file: &ImportFile, outcome: &ImportOutcome) {
    let mut more = 0_u64;
    let mut noted = 0;
    for (line, outcome) in file.lines.iter().zip(&outcome.lines) {
        let Some(LineOutcome::Refused { code, detail }) = outcome else {
            continue;
        };
        if noted == SHOWN_MAX {
            more += 1;
            continue;
        }
        noted += 1;
        let place = file.place(&line.source);
        let (code, detail) = (printable(code), printable(detail));
        note(&format!("{place}: {detail} ({code})"));
    }
    if more > 0 {
        note(&format!(
            "… and {more} more; --refused FILE writes all refused lines to a file"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(charged: i64, before: Option<i64>) -> ImportOutcome {
        let refused = |code: &str| LineOutcome::Refused {
            code: code.to_owned(),
            detail: "Do this.".to_owned(),
        };
        ImportOutcome {
            lines: vec![
                Some(LineOutcome::Created { short_url: None }),
                Some(LineOutcome::Existing { short_url: None }),
                Some(refused("slug_taken")),
                Some(refused("slug_taken")),
                None,
            ],
            credits_charged: charged,
            credits_before: before,
            failure: None,
        }
    }

    #[test]
    fn summary_counts_every_line() {
        let outcome = outcome(1, Some(3));
        let summary = ImportSummary::of(&outcome);
        let took = Duration::from_millis(1_234);
        assert_eq!(
            summary.text(&outcome, BatchMode::Partial, took),
            "5 lines in 1.2 s: 1 created, 1 created before, 2 refused, 1 unknown\n         2  slug_taken\n"
        );
        let text = summary.text(&outcome, BatchMode::DryRun, took);
        assert!(text.contains("1 would be created"), "{text}");
        assert!(text.ends_with("Cost: 1 credit; balance: 3\n"), "{text}");
    }

    #[test]
    fn dry_run_names_missing_credits() {
        assert!(cost(&outcome(5, Some(3))).ends_with("balance: 3; missing: 2\n"));
        assert_eq!(cost(&outcome(5, None)), "Cost: 5 credits\n");
    }
}
