//! The consistency token: the place in the log that an answer rests on (contract §7).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::{id::AccountId, shard::Position};

/// Name of the header that carries a token, in answers to writes and in reads.
pub const HEADER: &str = "consistency-token";
/// Form of the bytes below; another form gets another number.
const VERSION: u8 = 1;
const TOKEN_LENGTH: usize = 1 + 4 + 8 + TAG_LENGTH;
const TAG_LENGTH: usize = 8;

/// A place in the log, bound to the account whose shard it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsistencyToken {
    /// The epoch of the log; a place of an older one says nothing.
    pub epoch: i32,
    /// The account that wrote.
    pub account_id: AccountId,
    /// The last event that the answer rests on, in the account's shard.
    pub position: Position,
}

impl ConsistencyToken {
    /// The opaque text for the `Consistency-Token` header.
    pub fn encode(&self) -> String {
        let mut bytes = [0; TOKEN_LENGTH];
        bytes[0] = VERSION;
        bytes[1..5].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[5..13].copy_from_slice(&self.position.to_be_bytes());
        bytes[13..].copy_from_slice(&account_tag(self.account_id));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The token of that text, if it was made for this account.
    pub fn decode(text: &str, account_id: AccountId) -> Option<Self> {
        let bytes: [u8; TOKEN_LENGTH] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let epoch = i32::from_be_bytes(bytes[1..5].try_into().ok()?);
        let position = i64::from_be_bytes(bytes[5..13].try_into().ok()?);
        let is_ours = bytes[0] == VERSION && bytes[13..] == account_tag(account_id);
        (is_ours && epoch > 0 && position > 0).then_some(Self {
            epoch,
            account_id,
            position,
        })
    }
}

/// Not a secret: it only keeps a token from being sent with another account's key by mistake.
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
    fn a_token_survives_its_text_form() {
        assert_eq!(
            ConsistencyToken::decode(&TOKEN.encode(), ACCOUNT),
            Some(TOKEN)
        );
    }

    #[test]
    fn another_accounts_token_and_malformed_ones_are_refused() {
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
