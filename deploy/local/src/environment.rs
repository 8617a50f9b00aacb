//! The file `env` in the data folder: what other programs need to work against the stack.

use std::{fmt, path::PathBuf};

use crate::data_folder::DataFolder;

/// Name of the file in the data folder.
const FILE: &str = "env";

/// The variables, as `NAME=value` lines that a shell, Docker and we can read.
///
/// `Debug` shows the names only: some of the values are secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Environment(Vec<(String, String)>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl Environment {
    /// The same with one more variable.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Writes the file.
    pub(crate) fn write(&self, folder: &DataFolder) -> anyhow::Result<()> {
        let line = |(name, value): &(String, String)| format!("{name}={}\n", quoted(value));
        folder.write(FILE, &self.0.iter().map(line).collect::<String>())
    }

    /// Reads the file of that data folder; `None` where there is none.
    pub(crate) fn read(folder: &DataFolder) -> anyhow::Result<Option<Self>> {
        Ok(folder.read(FILE)?.map(|text| Self::parse(&text)))
    }

    /// Where the file of that data folder lies.
    pub(crate) fn path(folder: &DataFolder) -> PathBuf {
        folder.path(FILE)
    }

    fn parse(text: &str) -> Self {
        let variables = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('='));
        Self(
            variables
                .map(|(name, value)| (name.trim().to_owned(), unquoted(value.trim())))
                .collect(),
        )
    }
}

/// Quoted for a shell, but only where one would read the value differently.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@,%+=".contains(c);
    if value.chars().all(is_plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}

fn unquoted(value: &str) -> String {
    let quoted = value
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    quoted.map_or_else(|| value.to_owned(), |text| text.replace(r"'\''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_file_and_plain_ones_stay_plain() {
        let directory = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(directory.path()).unwrap();
        let environment = Environment::default()
            .with("API_URL", "http://127.0.0.1:8080")
            .with("DATABASE_URL", "postgres://a:b@h/db?x=1&y='2'");
        environment.write(&folder).unwrap();
        assert_eq!(
            Environment::read(&folder).unwrap(),
            Some(environment.clone())
        );
        let text = folder.read(FILE).unwrap().unwrap();
        assert_eq!(format!("{environment:?}"), r#"{"API_URL", "DATABASE_URL"}"#);
        assert!(text.starts_with("API_URL=http://127.0.0.1:8080\nDATABASE_URL='postgres:"));
    }

    #[test]
    fn comments_blank_lines_and_lines_without_a_value_are_passed_over() {
        let environment = Environment::parse("# API_KEY=old\n\nexport\nAPI_KEY='a=b'\r\n");
        assert_eq!(environment, Environment::default().with("API_KEY", "a=b"));
        assert_eq!(environment.get("API_URL"), None);
    }
}
