//! Settings whose value is in a file: `NAME_FILE` names the file.

use std::{env, ffi::OsString, fs, io, path::PathBuf};

use super::Variables;

/// The value of a setting cannot be read from its file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The variable and the variable of the file are both set.
    #[error("{name} and {name}_FILE are both set; keep one of them")]
    Both {
        /// Variable of the setting.
        name: String,
    },
    /// The file does not exist, is not text or is not readable.
    #[error("{name}_FILE: cannot read {}: {cause}", file.display())]
    Unreadable {
        /// Variable of the setting.
        name: String,
        /// Path of the file.
        file: PathBuf,
        /// Cause of the failure.
        cause: io::Error,
    },
}

/// Returns true if `NAME_FILE` may replace this variable. A setting whose value is a file name has
/// no `NAME_FILE`.
pub(super) fn may_name_file(name: &str) -> bool {
    !name.ends_with("_FILE")
}

/// Reads the value from the file of the variable `name`, if a file is named. Removes one trailing
/// newline.
pub(super) fn value(
    name: &str,
    variables: &Variables,
) -> Result<Option<(PathBuf, OsString)>, FileError> {
    if !may_name_file(name) {
        return Ok(None);
    }
    let Some(file) = variables.get(&format!("{name}_FILE")).map(PathBuf::from) else {
        return Ok(None);
    };
    let name = name.to_owned();
    if variables.contains_key(&name) {
        return Err(FileError::Both { name });
    }
    match fs::read_to_string(&file) {
        Ok(text) => {
            let value = text.strip_suffix('\n').unwrap_or(&text);
            let value = value.strip_suffix('\r').unwrap_or(value).into();
            Ok(Some((file, value)))
        }
        Err(cause) => Err(FileError::Unreadable { name, file, cause }),
    }
}

/// Reads a variable without a flag, or its file.
///
/// # Errors
/// Returns an error if both are set or the file cannot be read.
pub fn variable(name: &str) -> Result<Option<OsString>, FileError> {
    let variables = [name.to_owned(), format!("{name}_FILE")]
        .into_iter()
        .filter_map(|name| Some((name.clone(), env::var_os(name)?)))
        .collect();
    let of_file = value(name, &variables)?.map(|(_, value)| value);
    Ok(of_file.or_else(|| variables.get(name).cloned()))
}
