//! `status --watch`: redraws the status on a terminal, and appends it elsewhere.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use anyhow::Context as _;
use console::{Term, measure_text_width, truncate_str};
use linkledger_service::databases::Databases;
use tokio::{
    signal,
    time::{self, MissedTickBehavior},
};

use super::ShowStatus;
use crate::{cli::columns::Screen, pipeline::retry};

/// Begin and end of a synchronized update of the terminal.
const AT_ONCE: [&str; 2] = ["\x1b[?2026h", "\x1b[?2026l"];
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Clears from the cursor to the end of the line, and to the end of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// Rows and columns if the terminal does not report its size.
const SIZE: (u16, u16) = (24, 80);

/// Shows the status until Ctrl-C. Shows an error of the database and retries.
pub(super) async fn run(
    databases: &Databases,
    command: &ShowStatus,
    seconds: u16,
) -> anyhow::Result<()> {
    let is_redrawn = std::io::stdout().is_terminal() && !command.options.json;
    let mut due = time::interval(Duration::from_secs(seconds.into()));
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut frame = Frame::default();
    let shown = async {
        loop {
            due.tick().await;
            let text = match command.collect(databases).await {
                Ok(status) if command.options.json => {
                    command.options.print(&status, "")?;
                    continue;
                }
                Ok(status) => command.text(&status, Screen::of_stdout()),
                Err(error) if retry::passes_by_itself(&error) => {
                    vec![format!("retrying: {error:#}")]
                }
                Err(error) => return Err(error),
            };
            if is_redrawn {
                let size = Term::stdout().size_checked().unwrap_or(SIZE);
                print(&frame.replace_by(&text, size))?;
            } else {
                print(&format!("{}\n\n", text.join("\n")))?;
            }
        }
    };
    let ended = tokio::select! {
        ended = shown => ended,
        interrupted = signal::ctrl_c() => interrupted.context("cannot wait for Ctrl-C"),
    };
    if is_redrawn {
        print(SHOW_CURSOR)?;
    }
    ended
}

/// Last output on the terminal.
#[derive(Debug, Default)]
struct Frame {
    rows: usize,
}

impl Frame {
    /// Returns the characters that replace the previous output. Each line is overwritten, and only
    /// its rest is cleared, so that nothing flickers.
    fn replace_by(&mut self, lines: &[String], (height, width): (u16, u16)) -> String {
        // One row is for the cursor, and one for the note about cut lines.
        let rows_max = usize::from(height).saturating_sub(1).max(2);
        let mut rows = lines.to_vec();
        if lines.len() > rows_max {
            rows.truncate(rows_max - 1);
            let more = lines.len() - rows.len();
            rows.push(format!("… and {more} more lines than the terminal is high"));
        }
        let mut text = [AT_ONCE[0], HIDE_CURSOR].concat();
        if self.rows > 0 {
            let up = format!("\x1b[{}A\r", self.rows.min(rows_max));
            text.push_str(&up);
        }
        for row in &rows {
            let row = truncate_str(row, width.into(), "…");
            text.push_str(&row);
            // After the last column, the sequence would clear that column.
            if measure_text_width(&row) < width.into() {
                text.push_str(CLEAR_LINE);
            }
            text.push_str("\r\n");
        }
        self.rows = rows.len();
        text.push_str(CLEAR_BELOW);
        text.push_str(AT_ONCE[1]);
        text
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("cannot print the status")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
        lines.map(str::to_owned).to_vec()
    }

    #[test]
    fn frame_replaces_the_previous_frame() {
        let mut frame = Frame::default();
        let first = frame.replace_by(&lines(["one", "two"]), (24, 80));
        assert_eq!(
            first,
            "\x1b[?2026h\x1b[?25lone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J\x1b[?2026l"
        );
        let second = frame.replace_by(&lines(["three"]), (24, 80));
        assert_eq!(
            second,
            "\x1b[?2026h\x1b[?25l\x1b[2A\rthree\x1b[K\r\n\x1b[J\x1b[?2026l"
        );
    }

    #[test]
    fn small_terminal_shows_a_cut_frame() {
        let mut frame = Frame::default();
        let text = frame.replace_by(&lines(["first", "second", "third", "fourth"]), (4, 5));
        assert!(text.contains("first\r\nseco…\r\n… an…\r\n"), "{text:?}");
        assert_eq!(frame.rows, 3);
    }
}
