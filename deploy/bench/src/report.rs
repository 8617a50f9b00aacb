//! Report of an answer: a table on the terminal, JSON for programs, and plots for people.

pub(crate) mod machine;
mod plot;
mod table;

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Serialize;

use crate::answer::QuestionAnswer;
use machine::Machine;

pub use table::table;

/// Content of a JSON file of figures.
#[derive(Serialize)]
struct Figures<'a> {
    machine: Machine,
    #[serde(flatten)]
    answer: &'a QuestionAnswer,
}

/// Writes `<question>.json`, `<question>.svg` and, if there are latencies,
/// `<question>-latency.svg`.
///
/// # Errors
/// Returns an error if the folder can't be written to.
pub fn write(folder: &Path, answer: &QuestionAnswer) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
    };
    fs::create_dir_all(folder)?;
    let figures = Figures {
        machine: Machine::read(),
        answer,
    };
    let question = answer.question;
    let json = serde_json::to_string_pretty(&figures)? + "\n";
    write(&format!("{question}.json"), &json)?;
    write(&format!("{question}.svg"), &plot::rows(answer)?)?;
    if !answer.latencies.is_empty() {
        let name = format!("{question}-latency.svg");
        write(&name, &plot::latencies(answer)?)?;
    }
    Ok(())
}
