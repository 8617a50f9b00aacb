//! The data folder of the stack: small files that survive a restart, readable by their owner only.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::{
    options::DATA_DIR,
    output_file::{self, PRIVATE},
};

/// The stack's data folder.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    /// Opens the data folder, and creates the folder if it is missing.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| {
            format!(
                "can't create the data folder {}; choose another one with --data-dir",
                path.display()
            )
        })?;
        Ok(Self(path.to_owned()))
    }

    /// Names the data folder without creating it, for commands that only read.
    pub(crate) fn locate(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns ` --data-dir FOLDER` for the command lines that are shown to people, or nothing if
    /// the folder is the default one.
    pub(crate) fn data_dir_argument(&self) -> String {
        if self.0 == Path::new(DATA_DIR) {
            String::new()
        } else {
            format!(" --data-dir {}", self.0.display())
        }
    }

    /// Returns the path of a file in the data folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Reads the text of a file; `None` if the file does not exist.
    pub(crate) fn read(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
        }
    }

    /// Writes a private file (mode 0600) atomically: a crash leaves either the old text or the new
    /// text.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(name);
        let unfinished = self.path(&format!("{name}.unfinished"));
        let mut file = output_file::create(&unfinished, PRIVATE)?;
        let written = file.write_all(text.as_bytes());
        written
            .and_then(|()| file.sync_all())
            .with_context(|| format!("can't write {}", unfinished.display()))?;
        output_file::rename(&unfinished, &path)
    }

    /// Reads the text of a file, without white space at its ends. If the file is missing, writes
    /// the text of `make` first.
    pub(crate) fn read_or_make(
        &self,
        name: &str,
        make: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        if let Some(text) = self.read(name)? {
            return Ok(text.trim().to_owned());
        }
        let text = make();
        self.write(name, &format!("{text}\n"))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secret_file_is_private_and_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(&directory.path().join("data")).unwrap();
        assert_eq!(folder.read("secret").unwrap(), None);
        assert_eq!(
            folder.read_or_make("secret", || "one".to_owned()).unwrap(),
            "one"
        );
        assert_eq!(
            folder.read_or_make("secret", || "two".to_owned()).unwrap(),
            "one"
        );
        let mode = fs::metadata(folder.path("secret"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, PRIVATE);
    }
}
