//! The files that commands write. None is ever written through what somebody else has prepared at its
//! name: a link is not followed, and only a regular file of the same user is written to.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use anyhow::Context as _;
use nix::{fcntl::OFlag, unistd::geteuid};

use crate::output::WrongUse;

/// Mode of a new file that only its owner reads and writes.
pub(crate) const PRIVATE: u32 = 0o600;
/// Mode of a new file that others may read as well, less the umask.
pub(crate) const SHARED: u32 = 0o666;

/// Checks that a file may be written at this name, before the work whose result the file is to have.
///
/// # Errors
/// Returns [`WrongUse`] if the name is taken by anything but a regular file of this user.
pub(crate) fn check(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => judge(path, &metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_folder(path),
        Err(error) => Err(error).with_context(|| format!("can't write {}", path.display())),
    }
}

/// Opens a file to read and write, and creates the file with this mode if it is missing. Keeps its content.
pub(crate) fn open(path: &Path, mode: u32) -> anyhow::Result<File> {
    // A device may react to being opened, so the name is checked before the file.
    check(path)?;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(mode).custom_flags(flags.bits()).open(path);
    let file = file.with_context(|| format!("can't write {}", path.display()))?;
    let metadata = file.metadata();
    let metadata = metadata.with_context(|| format!("can't write {}", path.display()))?;
    judge(path, &metadata)?;
    Ok(file)
}

/// Opens a file to write its content anew.
pub(crate) fn create(path: &Path, mode: u32) -> anyhow::Result<File> {
    let file = open(path, mode)?;
    let emptied = file.set_len(0);
    emptied.with_context(|| format!("can't write {}", path.display()))?;
    Ok(file)
}

/// Writes the content of a file.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let written = create(path, mode)?.write_all(content);
    written.with_context(|| format!("can't write {}", path.display()))
}

/// Renames a complete file to the name that the user gave.
pub(crate) fn rename(complete: &Path, path: &Path) -> anyhow::Result<()> {
    // A device at that name would be replaced by the file.
    check(path)?;
    fs::rename(complete, path).with_context(|| format!("can't write {}", path.display()))
}

/// Checks that the folder of a new file is there.
fn check_folder(path: &Path) -> anyhow::Result<()> {
    match path.parent() {
        Some(folder) if folder != Path::new("") && !folder.is_dir() => {
            let (path, folder) = (path.display(), folder.display());
            let advice =
                format!("can't write {path}: there is no folder {folder}; create it first");
            Err(WrongUse(advice).into())
        }
        _ => Ok(()),
    }
}

fn judge(path: &Path, metadata: &Metadata) -> anyhow::Result<()> {
    let kind = metadata.file_type();
    let fault = if kind.is_symlink() {
        "is a symbolic link, which is not followed; name the file itself, or a new one"
    } else if kind.is_dir() {
        "is a folder; name a file in it"
    } else if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device()
    {
        "is a device, a pipe or a socket; name a file"
    } else if metadata.uid() != geteuid().as_raw() {
        "belongs to another user; delete it, or name another file"
    } else if metadata.nlink() > 1 {
        "has more than one name (hard links); delete this one, or name another file"
    } else {
        return Ok(());
    };
    Err(WrongUse(format!("{} {fault}", path.display())).into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    fn refused(path: &Path) -> String {
        let checked = check(path).unwrap_err().to_string();
        let written = write(path, b"new", PRIVATE).unwrap_err();
        assert!(written.is::<WrongUse>(), "{written}");
        assert_eq!(written.to_string(), checked);
        checked
    }

    #[test]
    fn link_folder_pipe_and_device_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "old").unwrap();
        let [link, dangling, pipe] =
            ["link", "dangling", "pipe"].map(|name| folder.path().join(name));
        symlink(&victim, &link).unwrap();
        symlink(folder.path().join("nothing"), &dangling).unwrap();
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert!(refused(&link).contains("symbolic link"));
        assert!(refused(&dangling).contains("symbolic link"));
        assert!(refused(folder.path()).contains("is a folder"));
        for special in [
            pipe.as_path(),
            Path::new("/dev/full"),
            Path::new("/dev/null"),
        ] {
            assert!(refused(special).contains("device, a pipe or a socket"));
            assert!(rename(&victim, special).is_err());
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
        assert!(!folder.path().join("nothing").exists());
    }

    #[test]
    fn missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = refused(&folder.path().join("missing/file"));
        assert!(error.ends_with("missing; create it first"), "{error}");
        assert!(check(Path::new("a-new-file-in-this-folder")).is_ok());
    }

    #[test]
    fn file_with_a_second_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, name] = ["victim", "name"].map(|name| folder.path().join(name));
        fs::write(&victim, "old").unwrap();
        fs::hard_link(&victim, &name).unwrap();
        assert!(refused(&name).contains("hard links"));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
    }

    #[test]
    fn written_file_has_its_mode_and_no_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"long content", PRIVATE).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, PRIVATE);
        write(&path, b"short", SHARED).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
    }
}
