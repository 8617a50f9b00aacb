//! Countries of addresses, from a file of the operator.

use std::{net::IpAddr, path::Path};

use maxminddb::{PathElement, Reader};

/// File of countries, in memory.
pub(super) struct Countries(Reader<Vec<u8>>);

/// Length of a country code.
const CODE_LENGTH: usize = 2;

impl Countries {
    /// Reads the file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self(Reader::open_readfile(path)?))
    }

    /// Returns the ISO 3166-1 code of the country of an address, if the file has one.
    pub(super) fn of(&self, address: IpAddr) -> Option<String> {
        let path = [PathElement::Key("country"), PathElement::Key("iso_code")];
        // A damaged part of the file has no countries; `check-config` has opened the file.
        let found = self.0.lookup(address).ok()?;
        let code: &str = found.decode_path(&path).ok()??;
        let is_code =
            code.len() == CODE_LENGTH && code.bytes().all(|byte| byte.is_ascii_uppercase());
        is_code.then(|| code.to_owned())
    }
}
