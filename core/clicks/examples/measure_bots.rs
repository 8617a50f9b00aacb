//! Measures the rules that tell bots from people on a list of user agents:
//! `cargo run -p linkledger-clicks --example measure_bots -- FILE`.
//!
//! Each line of the file has a kind (`browser` or `human`, `crawler` or `bot`) in its first column and a user agent in
//! its last one, separated by tabs. Other lines, such as a header, are skipped.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the results are for people"
)]

use std::{collections::BTreeMap, env, fs, hint::black_box, process::ExitCode, time::Instant};

use linkledger_clicks::BotPatterns;

/// Rounds of the measurement of the time.
const ROUNDS: u32 = 20;

fn main() -> ExitCode {
    let Some(path) = env::args_os().nth(1) else {
        eprintln!("give a file of user agents");
        return ExitCode::from(2);
    };
    match fs::read_to_string(&path) {
        Ok(list) => {
            measure(&list);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot read {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

fn measure(list: &str) {
    let bots = BotPatterns::built_in();
    let agents: Vec<(bool, &str)> = list.lines().filter_map(agent_of).collect();
    let mut counts = BTreeMap::<bool, (u32, u32)>::new();
    for (expected, agent) in &agents {
        let (all, wrong) = counts.entry(*expected).or_default();
        *all += 1;
        if bots.matches(agent.as_bytes()) != *expected {
            *wrong += 1;
            println!(
                "{} is wrong: {agent}",
                if *expected { "person" } else { "bot" }
            );
        }
    }
    for (is_bot, (all, wrong)) in counts {
        let (kind, other) = if is_bot {
            ("bots", "people")
        } else {
            ("people", "bots")
        };
        let share = 100.0 * f64::from(wrong) / f64::from(all);
        println!("{wrong} of {all} {kind} count as {other}: {share:.2} %");
    }
    let started = Instant::now();
    for _ in 0..ROUNDS {
        for (_, agent) in &agents {
            black_box(bots.matches(black_box(agent.as_bytes())));
        }
    }
    let count = ROUNDS as usize * agents.len().max(1);
    let nanoseconds = started.elapsed().as_nanos() / count as u128;
    println!("{nanoseconds} ns a user agent, without the cache of query-api");
}

/// Returns the kind of a line, true for bots, and its user agent.
fn agent_of(line: &str) -> Option<(bool, &str)> {
    let kind = line.split('\t').next()?;
    let (_, agent) = line.rsplit_once('\t')?;
    match kind {
        "browser" | "human" => Some((false, agent)),
        "crawler" | "bot" => Some((true, agent)),
        _ => None,
    }
}
