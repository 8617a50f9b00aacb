//! Members of the bodies of the admin API: their names, and the parsers of their values.

use linkledger_core::{
    account,
    api_key::ApiKey,
    credits::{InvalidLowBalanceAt, LowBalanceAt},
    field::FieldCode,
    id::EntryId,
    link::{Destination, DestinationRules, Expiry},
};
use linkledger_event_store::api_keys::{KeyHash, KeySecret};
use serde_json::Value;

use crate::admin::key::{self, NewSecret};

pub(super) use linkledger_http::admin_body::{
    Members, REASON, SCOPES, number, parse_reason, text, text_of,
};

/// Display name of an account or a key.
pub(super) const NAME: &str = "name";
/// Id of an account in the seller's system.
pub(super) const EXTERNAL_ID: &str = "external_id";
/// Thresholds of the balance of an account.
pub(super) const LOW_BALANCE_AT: &str = "low_balance_at";
/// Switch that takes the links of a suspended account out of service.
pub(super) const STOP_REDIRECTS: &str = "stop_redirects";
/// Address of the way back from the console.
pub(super) const RETURN_URL: &str = "return_url";
/// Expiry of a key.
pub(super) const EXPIRES_AT: &str = "expires_at";
/// Hash of a secret that the caller has made.
pub(super) const SECRET_SHA256: &str = "secret_sha256";
/// Time for which a replaced key stays valid.
pub(super) const OVERLAP_SECONDS: &str = "overlap_seconds";
/// Event after which a replay to a webhook starts.
pub(crate) const AFTER: &str = "after";
/// Number of credits.
pub(super) const AMOUNT: &str = "amount";
/// Reference in the seller's system.
pub(super) const REFERENCE: &str = "reference";
/// Text for the owner of an account.
pub(super) const DESCRIPTION: &str = "description";
/// Balance to set.
pub(super) const BALANCE: &str = "balance";
/// Entry to give back.
pub(super) const ENTRY: &str = "entry";
/// Entry to take back.
pub(super) const GRANT: &str = "grant";

/// Maximal length of the address of the way back from the console, in bytes.
pub(super) const RETURN_URL_LENGTH_MAX: usize = 2_048;

/// Parses the hash of a secret that the caller has made. Without one, a secret is generated.
pub(super) fn new_secret(members: &mut Members<'_>) -> NewSecret {
    let given = members.optional(SECRET_SHA256, sha256);
    given.map_or_else(
        || NewSecret::Generated(ApiKey::generate()),
        |sha256| {
            // The hash does not tell how the secret begins.
            let prefix = String::new();
            NewSecret::Given(KeySecret { sha256, prefix })
        },
    )
}

/// Parses the id of an account in the seller's system.
pub(super) fn external_id(value: &Value) -> Result<String, FieldCode> {
    let external_id = account::parse_external_id(text_of(value)?);
    match external_id.ok_or(FieldCode::ExternalIdInvalid)? {
        reserved if reserved == account::OPERATORS_EXTERNAL_ID => {
            Err(FieldCode::ExternalIdReserved)
        }
        external_id => Ok(external_id),
    }
}

/// Parses thresholds of a balance that may be missing, with an error for each that is refused.
pub(super) fn low_balance_at(members: &mut Members<'_>) -> Option<LowBalanceAt> {
    let thresholds = members.array(LOW_BALANCE_AT, |value| {
        number(value, FieldCode::ThresholdInvalid, LowBalanceAt::accepts)
    })?;
    let refused = match LowBalanceAt::of(thresholds) {
        Ok(thresholds) => return Some(thresholds),
        Err(InvalidLowBalanceAt::TooMany) => FieldCode::TooManyThresholds,
        Err(InvalidLowBalanceAt::OutOfRange) => FieldCode::ThresholdInvalid,
    };
    members.refuse(LOW_BALANCE_AT, refused);
    None
}

/// Parses the expiry of a key.
pub(super) fn expiry(value: &Value) -> Result<Expiry, FieldCode> {
    Expiry::parse(text_of(value)?)
}

/// Parses the address of the way back from the console. Returns its serialised form.
pub(super) fn return_url(value: &Value) -> Result<String, FieldCode> {
    // A seller's pages may be in an intranet, or on a host of this installation.
    let parsed = Destination::parse(text_of(value)?, &DestinationRules::of_lookups());
    let is_short_and_of_the_web = |address: &Destination| {
        let begins = ["https://", "http://"].map(|begin| address.starts_with(begin));
        address.len() <= RETURN_URL_LENGTH_MAX && begins.contains(&true)
    };
    let address = parsed.ok().filter(is_short_and_of_the_web);
    let address = address.map(Destination::into_string);
    address.ok_or(FieldCode::ReturnUrlInvalid)
}

/// Parses the id of an entry.
pub(super) fn entry_id(value: &Value) -> Result<EntryId, FieldCode> {
    let parsed = text_of(value)?.parse();
    parsed.map_err(|_| FieldCode::EntryIdInvalid)
}

/// Parses a SHA-256 in 64 hexadecimal digits.
fn sha256(value: &Value) -> Result<KeyHash, FieldCode> {
    key::parse_sha256(text_of(value)?).map_err(|_| FieldCode::SecretSha256Invalid)
}

/// Parses a switch.
pub(super) fn switch(value: &Value) -> Result<bool, FieldCode> {
    value.as_bool().ok_or(FieldCode::WrongType)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn way_back_leads_to_the_web() {
        let address = |text: &str| return_url(&json!(text));
        for (valid, serialised) in [
            (
                "https://shop.example.com/a?b#c",
                "https://shop.example.com/a?b#c",
            ),
            ("HTTP://Localhost:3000", "http://localhost:3000/"),
        ] {
            assert_eq!(address(valid).as_deref(), Ok(serialised));
        }
        let of_length = |length: usize| format!("https://a.example/{}", "x".repeat(length - 18));
        assert_eq!(address(&of_length(2_048)), Ok(of_length(2_048)));
        for invalid in [
            "",
            "shop.example.com",
            "//shop.example.com/",
            "javascript:alert(1)",
            "mailto:a@shop.example.com",
            "https://user@shop.example.com/",
            &of_length(2_049),
        ] {
            let refused = address(invalid);
            assert_eq!(refused, Err(FieldCode::ReturnUrlInvalid), "{invalid}");
        }
    }

    #[test]
    fn values_are_parsed_strictly() {
        let amount = |value: Value| number(&value, FieldCode::AmountInvalid, |amount| amount > 0);
        assert_eq!(amount(json!(i64::MAX)), Ok(i64::MAX));
        for invalid in [json!(0), json!(1.5), json!(1e3), json!(u64::MAX)] {
            let refused = amount(invalid.clone());
            assert_eq!(refused, Err(FieldCode::AmountInvalid), "{invalid}");
        }
        assert_eq!(amount(json!("1")), Err(FieldCode::WrongType));
        assert_eq!(switch(&json!("true")), Err(FieldCode::WrongType));
    }
}
