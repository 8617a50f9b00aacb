//! Consistency tokens.

use linkledger_core::{consistency::ConsistencyToken, id::AccountId};
use uuid::Uuid;

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));
const OTHER_ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(2));

/// A token has one spelling and one account, and names a valid position.
pub(crate) fn property(input: &[u8]) -> bool {
    if let Some((place, _)) = input.split_first_chunk::<12>() {
        let (epoch, position) = place.split_at(4);
        let epoch = i32::from_be_bytes(epoch.try_into().unwrap());
        let position = i64::from_be_bytes(position.try_into().unwrap());
        let token = ConsistencyToken {
            epoch,
            account_id: ACCOUNT,
            position,
        };
        let is_place = epoch > 0 && position > 0;
        assert_eq!(is_accepted(&token.encode()), is_place, "{token:?}");
    }
    std::str::from_utf8(input).is_ok_and(is_accepted)
}

fn is_accepted(text: &str) -> bool {
    let token = ConsistencyToken::decode(text, ACCOUNT);
    token.is_some_and(|token| {
        assert_eq!(token.encode(), text);
        assert_eq!(
            ConsistencyToken::decode(text, OTHER_ACCOUNT),
            None,
            "{text}"
        );
        true
    })
}

#[test]
fn a_token_has_one_spelling_and_one_account() {
    super::seeds::explore("consistency_token", property);
}
