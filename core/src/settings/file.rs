//! Values that are in files: `NAME_FILE` names one.

use std::{env, ffi::OsString, fs, io, path::PathBuf};

use super::Variables;

/// A setting can't be had from its file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Which one counts is not said.
    #[error("{name} and {name}_FILE are both set; keep one of them")]
    Both {
        /// The setting's variable.
        name: String,
    },
    /// It is not there, or not text, or its rights forbid it.
    #[error("{name}_FILE: can't read {}: {cause}", file.display())]
    Unreadable {
        /// The setting's variable.
        name: String,
        /// The file.
        file: PathBuf,
        /// Why not.
        cause: io::Error,
    },
}

/// Whether `NAME_FILE` may stand for that variable: a setting that is the name of a file is told that
/// name.
pub(super) fn may_name_file(name: &str) -> bool {
    !name.ends_with("_FILE")
}

/// The value that the file of the variable `name` holds, if one is named: without the line's end.
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

/// The value of a variable that no flag stands for, or of its file.
///
/// # Errors
/// When both are set, or the file can't be read.
pub fn variable(name: &str) -> Result<Option<OsString>, FileError> {
    let variables = [name.to_owned(), format!("{name}_FILE")]
        .into_iter()
        .filter_map(|name| Some((name.clone(), env::var_os(name)?)))
        .collect();
    let of_file = value(name, &variables)?.map(|(_, value)| value);
    Ok(of_file.or_else(|| variables.get(name).cloned()))
}
