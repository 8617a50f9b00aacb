//! The file `env` in the data folder: addresses and secrets with which other programs reach the
//! running stack.

use std::{fmt, path::PathBuf};

use crate::data_folder::DataFolder;

/// Name of the file in the data folder.
const FILE: &str = "env";

/// The variables of the file, written as `NAME=value` lines that a shell and Docker can read.
///
/// `Debug` shows only the names: some values are secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct EnvironmentFile(Vec<(String, String)>);

impl fmt::Debug for EnvironmentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl EnvironmentFile {
    /// Adds a variable.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(variable, _)| variable == name)
            .map(|(_, value)| value.as_str())
    }

    /// Writes the variables to the file `env` of the data folder.
    pub(crate) fn write(&self, folder: &DataFolder) -> anyhow::Result<()> {
        let line = |(name, value): &(String, String)| format!("{name}={}\n", quoted(value));
        folder.write(FILE, &self.0.iter().map(line).collect::<String>())
    }

    /// Reads the file `env` of the data folder; `None` if the file does not exist.
    pub(crate) fn read(folder: &DataFolder) -> anyhow::Result<Option<Self>> {
        Ok(folder.read(FILE)?.map(|text| Self::parse(&text)))
    }

    /// Returns the path of the file `env` of the data folder.
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

/// Quotes a value for a shell. A value that no shell would change stays as it is.
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
    fn environment_file_keeps_values_and_quotes_few() {
        let directory = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(directory.path()).unwrap();
        let environment = EnvironmentFile::default()
            .with("API_URL", "http://127.0.0.1:8080")
            .with("DATABASE_URL", "postgres://a:b@h/db?x=1&y='2'");
        environment.write(&folder).unwrap();
        assert_eq!(
            EnvironmentFile::read(&folder).unwrap(),
            Some(environment.clone())
        );
        let text = folder.read(FILE).unwrap().unwrap();
        assert_eq!(format!("{environment:?}"), r#"{"API_URL", "DATABASE_URL"}"#);
        assert!(text.starts_with("API_URL=http://127.0.0.1:8080\nDATABASE_URL='postgres:"));
    }

    #[test]
    fn comments_and_lines_without_a_value_are_skipped() {
        let environment = EnvironmentFile::parse("# API_KEY=old\n\nexport\nAPI_KEY='a=b'\r\n");
        assert_eq!(
            environment,
            EnvironmentFile::default().with("API_KEY", "a=b")
        );
        assert_eq!(environment.get("API_URL"), None);
    }
}
