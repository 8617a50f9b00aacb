//! Settings whose value is in a file: `NAME_FILE` names the file.

use std::{env, ffi::OsString, fs, path::PathBuf};

use super::Variables;

/// Returns true if `NAME_FILE` may replace this variable. A setting whose value is a file name has
/// no `NAME_FILE`.
pub(super) fn may_name_file(name: &str) -> bool {
    !name.ends_with("_FILE")
}

/// Reads the value from the file of the variable `name`, if a file is named. Removes one trailing
/// newline. The error is a message for the operator.
pub(super) fn value(
    name: &str,
    variables: &Variables,
) -> Result<Option<(PathBuf, OsString)>, String> {
    if !may_name_file(name) {
        return Ok(None);
    }
    let Some(file) = variables.get(&format!("{name}_FILE")).map(PathBuf::from) else {
        return Ok(None);
    };
    if variables.contains_key(name) {
        return Err(format!(
            "{name} and {name}_FILE are both set; keep one of them"
        ));
    }
    let text = fs::read_to_string(&file)
        .map_err(|cause| format!("{name}_FILE: cannot read {}: {cause}", file.display()))?;
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value).into();
    Ok(Some((file, value)))
}

/// Reads a variable without a flag, or its file.
///
/// # Errors
/// Returns an error if both are set or the file cannot be read.
pub fn variable(name: &str) -> anyhow::Result<Option<OsString>> {
    let variables = [name.to_owned(), format!("{name}_FILE")]
        .into_iter()
        .filter_map(|name| Some((name.clone(), env::var_os(name)?)))
        .collect();
    let of_file = value(name, &variables).map_err(anyhow::Error::msg)?;
    let of_file = of_file.map(|(_, value)| value);
    Ok(of_file.or_else(|| variables.get(name).cloned()))
}
