use indicatif::InMemoryTerm;

use super::*;

/// Returns the output on a terminal of 80 columns when half is done.
fn shown(phase: &str, total: u64) -> String {
    let terminal = InMemoryTerm::new(10, 80);
    let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
    let progress = ProgressReport::drawn_on(target);
    let Show::Bar(bar) = &progress.show else {
        unreachable!("it is drawn");
    };
    let line = Line {
        phase,
        done: total / 2,
        total,
        unit: "events",
        seconds: 2.0,
        per_second: 62_630,
        seconds_left: Some(1_600),
    };
    draw(bar, &line);
    bar.abandon();
    terminal.contents()
}

#[test]
fn bar_fits_on_a_line_of_80_columns() {
    let text = shown("redirects: verifying", 100_000_000);
    let words = "50,000,000 of 100,000,000 events, 62,630/s, 1,600 s left";
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.ends_with(words), "{text}");

    let text = shown("loading", 2_000);
    assert!(text.starts_with("loading ██"), "{text}");
    let words = "░ 1,000 of 2,000 events, 62,630/s, 1,600 s left";
    assert!(text.ends_with(words), "{text}");
}

#[test]
fn phase_without_total_has_no_bar() {
    assert_eq!(shown("links: swapping", 0), "links: swapping");
}

#[test]
fn line_shows_done_and_remaining_units() {
    let mut line = Line {
        phase: "loading",
        done: 10,
        total: 40,
        unit: "events",
        seconds: 2.0,
        per_second: 5,
        seconds_left: Some(6),
    };
    assert_eq!(line.to_string(), "loading: 10 of 40 events, 5/s, 6 s left");
    line.done = 40;
    assert_eq!(line.to_string(), "loading: 40 of 40 events in 2.0 s");
    (line.done, line.total) = (0, 0);
    assert_eq!(line.to_string(), "loading");
}
