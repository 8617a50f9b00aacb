//! Master key of the local stack's webhooks: one per data folder, made at the first start.

use std::path::PathBuf;

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use linkledger_core::clock::random_bytes;

use crate::data_folder::DataFolder;

/// Name of the file in the data folder that holds the key.
const FILE: &str = "webhook_keys";
const KEY_BYTES: usize = 32;

/// Returns the absolute path of the file with the master key. Makes the file if it is missing.
pub(super) fn webhook_keys(folder: &DataFolder) -> anyhow::Result<PathBuf> {
    folder.read_or_make(FILE, || {
        // A key is found by its id: those of two folders must differ, or one would be taken for the other.
        let id = u32::from_be_bytes(random_bytes());
        let key: [u8; KEY_BYTES] = random_bytes();
        format!("key-{id:08x}:{}", STANDARD.encode(key))
    })?;
    let path = folder.path(FILE);
    std::path::absolute(&path).with_context(|| format!("can't find {}", path.display()))
}

#[cfg(test)]
mod tests {
    use linkledger_core::webhook::MasterKeys;

    use super::*;

    #[test]
    fn file_holds_one_master_key_and_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(directory.path()).unwrap();
        let path = webhook_keys(&folder).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let keys = MasterKeys::parse(&text).unwrap();
        let id = keys.newest_id().strip_prefix("key-").unwrap();
        assert_eq!(id.len(), 8, "{id}");
        assert_eq!(webhook_keys(&folder).unwrap(), path);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn keys_of_two_folders_have_other_ids() {
        let id = || {
            let directory = tempfile::tempdir().unwrap();
            let folder = DataFolder::open(directory.path()).unwrap();
            let text = std::fs::read_to_string(webhook_keys(&folder).unwrap()).unwrap();
            MasterKeys::parse(&text).unwrap().newest_id().to_owned()
        };
        assert_ne!(id(), id());
    }
}
