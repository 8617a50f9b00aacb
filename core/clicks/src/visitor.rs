//! Hash by which clicks of one visitor on one day are recognised, and nothing else.

use std::{hash::Hasher as _, net::IpAddr};

use siphasher::sip128::{Hasher128 as _, SipHasher24};

use linkledger_core::id::AccountId;

/// Random key of the hashes of one UTC day.
pub type VisitorSalt = [u8; 16];

/// Returns the hash of a visitor of the links of `account_id`. Without the salt nobody can tell
/// addresses from hashes; hashes of different accounts and of different days cannot be compared.
pub fn visitor_hash(
    salt: &VisitorSalt,
    account_id: AccountId,
    client_address: IpAddr,
    user_agent: &[u8],
) -> u64 {
    let mut hasher = SipHasher24::new_with_key(salt);
    // Each part follows its length: no two inputs are the same bytes.
    let mut add = |part: &[u8]| {
        hasher.write(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.write(part);
    };
    add(account_id.uuid().as_bytes());
    match client_address.to_canonical() {
        IpAddr::V4(address) => add(&address.octets()),
        IpAddr::V6(address) => add(&address.octets()),
    }
    add(user_agent);
    hasher.finish128().h1
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn account(number: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(number))
    }

    #[test]
    fn every_input_changes_the_hash() {
        let address: IpAddr = "198.51.100.1".parse().unwrap();
        let other: IpAddr = "198.51.100.2".parse().unwrap();
        let hashes = [
            visitor_hash(&[1; 16], account(1), address, b"agent"),
            visitor_hash(&[2; 16], account(1), address, b"agent"),
            visitor_hash(&[1; 16], account(2), address, b"agent"),
            visitor_hash(&[1; 16], account(1), other, b"agent"),
            visitor_hash(&[1; 16], account(1), address, b"agents"),
        ];
        let distinct: std::collections::HashSet<u64> = hashes.into_iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }

    #[test]
    fn mapped_address_has_the_hash_of_ipv4() {
        let hash =
            |address: &str| visitor_hash(&[1; 16], account(1), address.parse().unwrap(), b"agent");
        assert_eq!(hash("::ffff:198.51.100.1"), hash("198.51.100.1"));
    }

    /// Recorders of two releases must give a visitor the same hash on the day of an upgrade.
    #[test]
    fn hash_never_changes() {
        let address: IpAddr = "198.51.100.1".parse().unwrap();
        let hash = visitor_hash(&[7; 16], account(1), address, b"agent");
        assert_eq!(format!("{hash:016x}"), "1d8cee4b3af51f43");
    }
}
