//! The consistency token: the position that an answer reflects (`docs/api.md#consistency`).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::{id::AccountId, shard::Position};

/// Name of the header that carries a token, in answers to writes and in reads.
pub const HEADER: &str = "consistency-token";
/// Version of the binary format below. A changed format needs another number.
const VERSION: u8 = 1;
const TOKEN_LENGTH: usize = 1 + 4 + 8 + TAG_LENGTH;
const TAG_LENGTH: usize = 8;

/// A position of an account's shard, bound to the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsistencyToken {
    /// Epoch of the log. Tokens of an older epoch are ignored.
    pub epoch: i32,
    /// Account that wrote.
    pub account_id: AccountId,
    /// Position of the last event that the answer reflects, in the account's shard.
    pub position: Position,
}

impl ConsistencyToken {
    /// Returns the token as opaque text for the header `Consistency-Token`.
    pub fn encode(&self) -> String {
        let mut bytes = [0; TOKEN_LENGTH];
        bytes[0] = VERSION;
        bytes[1..5].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[5..13].copy_from_slice(&self.position.to_be_bytes());
        bytes[13..].copy_from_slice(&account_tag(self.account_id));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a token. Returns `None` if the text is malformed or was made for another account.
    pub fn decode(text: &str, account_id: AccountId) -> Option<Self> {
        let bytes: [u8; TOKEN_LENGTH] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let epoch = i32::from_be_bytes(bytes[1..5].try_into().ok()?);
        let position = i64::from_be_bytes(bytes[5..13].try_into().ok()?);
        let is_valid = bytes[0] == VERSION && bytes[13..] == account_tag(account_id);
        (is_valid && epoch > 0 && position > 0).then_some(Self {
            epoch,
            account_id,
            position,
        })
    }
}

/// Returns a tag of the account. Not a secret: the tag only prevents using a token with another
/// account's key by mistake.
fn account_tag(account_id: AccountId) -> [u8; TAG_LENGTH] {
    let hash = Sha256::digest(account_id.uuid().as_bytes());
    hash[..TAG_LENGTH].try_into().expect("the hash is longer")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));
    const TOKEN: ConsistencyToken = ConsistencyToken {
        epoch: 3,
        account_id: ACCOUNT,
        position: 77,
    };

    #[test]
    fn token_round_trips_through_text() {
        assert_eq!(
            ConsistencyToken::decode(&TOKEN.encode(), ACCOUNT),
            Some(TOKEN)
        );
    }

    #[test]
    fn foreign_and_malformed_tokens_are_refused() {
        let text = TOKEN.encode();
        let other = AccountId::from_uuid(Uuid::from_u128(2));
        assert_eq!(ConsistencyToken::decode(&text, other), None);
        for text in [
            "",
            "x",
            &text[1..],
            &format!("{text}A"),
            &format!("{text}="),
            "\u{e9}",
        ] {
            assert_eq!(ConsistencyToken::decode(text, ACCOUNT), None, "{text}");
        }
    }
}
