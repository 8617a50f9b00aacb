//! Accounts, API keys, ledger entries and links as sent to the clients of the admin API and printed by the
//! commands (`docs/admin-api.md`).
//!
//! A view is made of an event or of a row, so that a replay answers byte for byte as the first request did.

#![expect(
    missing_docs,
    reason = "members with an inlined schema have its description in the OpenAPI document"
)]

use std::fmt;

use linkledger_core::{
    account::{Account, AccountAfter},
    api_key::{ApiKey, KeyState},
    credits::{ChargeReason, CreditsEvent, LowBalanceAt},
    id::{AccountId, EntryId, KeyId, LinkId},
    link::{DisabledBy, ExistingLink},
    timestamp,
};
use linkledger_event_store::api_keys::ListedKey;
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{
    link_body::{LinkBody, LinkParts},
    openapi::Timestamp,
};

/// An account. A member that has no value is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    /// Id of the account: opaque text that never changes.
    #[schema(value_type = String, examples("acc_01h455vb4pex5vsknk084sn02q"))]
    pub id: AccountId,
    /// Id of the account in the seller's system, unique in the service.
    #[schema(required = false, examples("customers/4711"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Display name.
    #[schema(examples("Example Ltd"))]
    pub name: String,
    /// `active` or `suspended`; later releases may add states.
    #[schema(examples("active"))]
    pub state: &'static str,
    /// True if the links of a suspended account do not redirect. Absent otherwise.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redirects_stopped: bool,
    /// Credits left to spend.
    #[schema(minimum = 0, examples(1000))]
    pub balance: i64,
    /// Balances whose crossing by a charge is a message `credits.low`, the lowest first; empty if there are none.
    #[schema(value_type = Vec<i64>, max_items = 5, examples(json!([10, 100])))]
    pub low_balance_at: LowBalanceAt,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    pub created_at: OffsetDateTime,
}

/// An API key. A member that has no value is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyView {
    /// Public id of the key: opaque text that never changes.
    #[schema(value_type = String, examples("key_01h455vb4pex5vsknk084sn02r"))]
    pub id: KeyId,
    /// Account that the key acts for.
    #[schema(value_type = String, examples("acc_01h455vb4pex5vsknk084sn02q"))]
    pub account_id: AccountId,
    /// Display name.
    #[schema(examples("web shop"))]
    pub name: String,
    /// First characters of the secret, for people to recognise the key.
    #[schema(examples("llk_3Xk9"))]
    pub prefix: String,
    /// Permissions of the key.
    #[schema(examples(json!(["link:links.read"])))]
    pub scopes: Vec<String>,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    pub created_at: OffsetDateTime,
    // Instant from which the key is refused.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires_at: Option<OffsetDateTime>,
    // Instant from which the key is refused because somebody revoked or replaced it.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub revoked_at: Option<OffsetDateTime>,
    // Time of the last use, accurate to about two minutes.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_used_at: Option<OffsetDateTime>,
    /// The secret: only in the first answer to the request that made the key, and never stored.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<ShownSecret>,
}

/// Secret of a new key, for its one answer. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ShownSecret(String);

impl ShownSecret {
    /// Returns the secret of a new key.
    pub fn of(key: &ApiKey) -> Self {
        Self(key.reveal().to_owned())
    }

    /// Returns the secret text. Call `reveal` only to hand out a new key.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ShownSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShownSecret(…)")
    }
}

/// An entry of an account's ledger. A member that has no value is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Entry)]
pub struct EntryView {
    /// Id of the entry: opaque text that never changes.
    #[schema(value_type = String, examples("ent_01h455vb4pex5vsknk084sn02s"))]
    pub id: EntryId,
    /// `grant`, `charge`, `adjustment`, `refund` or `revocation`; later releases may add types.
    #[serde(rename = "type")]
    #[schema(examples("grant"))]
    pub kind: &'static str,
    /// Change of the balance: negative for a charge and a revocation.
    #[schema(examples(1000))]
    pub amount: i64,
    /// Balance right after the entry.
    #[schema(minimum = 0, examples(1000))]
    pub balance_after: i64,
    /// Reason given by the operator; `link_created` for a charge.
    #[schema(examples("invoice paid"))]
    pub reason: String,
    /// Reference in the seller's system, such as the number of an invoice.
    #[schema(required = false, examples("invoice-2026-11-4711"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Text shown to the owner.
    #[schema(required = false, examples("Starter pack"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Link that a charge paid for, or whose charge a refund gives back.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_id: Option<LinkId>,
    /// API key of the request that caused a charge.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<KeyId>,
    /// Entry of the charge that a refund gives back.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunds: Option<EntryId>,
    /// Entry of the grant that a revocation takes back.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<EntryId>,
    /// Credits that a revocation asked for: the amount of the grant.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<i64>,
    /// Credits that a revocation took: what was asked, at most the balance.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<i64>,
    /// Credits that a revocation asked for and could not take.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<i64>,
    /// Entry of the refund of a charge, or of the revocation of a grant, if there is one. In lists only.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reversed_by: Option<EntryId>,
    /// Id of the API key or admin key whose request caused the entry, or `operator`. In lists only.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    pub created_at: OffsetDateTime,
}

/// A link, and the account that owns it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LinkOfAccount)]
pub struct LinkView {
    #[serde(flatten)]
    link: LinkBody,
    /// Account that owns the link.
    #[schema(value_type = String, examples("acc_01h455vb4pex5vsknk084sn02q"))]
    pub account_id: AccountId,
    /// True if the owner has deleted the link. Absent otherwise.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
}

impl LinkView {
    /// Returns the view of a link whose short address starts with `short_base_url`.
    pub fn of(link: &ExistingLink, short_base_url: &str) -> Self {
        Self {
            link: LinkBody::new(LinkParts::of(link), short_base_url),
            account_id: link.account_id,
            deleted: link.state.deleted,
        }
    }

    /// Returns the id of the link.
    pub const fn id(&self) -> LinkId {
        self.link.id
    }

    /// Returns the short address of the link.
    pub fn short_url(&self) -> &str {
        &self.link.short_url
    }

    /// Returns the role that the link is disabled by.
    pub const fn disabled_by(&self) -> Option<DisabledBy> {
        self.link.disabled_by
    }

    /// Returns the example of the `OpenAPI` document.
    pub fn example() -> Value {
        let mut example = LinkBody::example();
        example["account_id"] = json!("acc_01h455vb4pex5vsknk084sn02q");
        example
    }
}

impl AccountView {
    /// Returns the view of an account as an event of the account describes it.
    pub fn of(account_id: AccountId, after: &AccountAfter) -> Self {
        Self {
            id: account_id,
            external_id: after.external_id.clone(),
            name: after.name.clone(),
            state: after.status.state().name(),
            redirects_stopped: after.status.redirects_stopped(),
            balance: after.balance,
            low_balance_at: after.low_balance_at,
            created_at: after.created_at,
        }
    }

    /// Returns the view of an account with this balance.
    pub fn of_account(account: &Account, balance: i64) -> Self {
        Self::of(account.account_id, &account.after(balance))
    }

    /// Returns the example of the `OpenAPI` document.
    pub fn example() -> Value {
        json!({
            "id": "acc_01h455vb4pex5vsknk084sn02q",
            "external_id": "customers/4711",
            "name": "Example Ltd",
            "state": "active",
            "balance": 1000,
            "low_balance_at": [10, 100],
            "created_at": "2026-11-20T09:51:00.123Z",
        })
    }
}

impl KeyView {
    /// Returns the view of a key as its events describe it. `prefix` is the beginning of its secret.
    pub fn of_state(key: &KeyState, prefix: String) -> Self {
        Self {
            id: key.key_id,
            account_id: key.account_id,
            name: key.name.clone(),
            prefix,
            scopes: key.scopes.clone(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: None,
            secret: None,
        }
    }

    /// Returns the view with the secret, for the first answer.
    #[must_use]
    pub fn with_secret(self, secret: &ApiKey) -> Self {
        Self {
            secret: Some(ShownSecret::of(secret)),
            ..self
        }
    }

    /// Returns the example of the `OpenAPI` document, without a secret.
    pub fn example() -> Value {
        json!({
            "id": "key_01h455vb4pex5vsknk084sn02r",
            "account_id": "acc_01h455vb4pex5vsknk084sn02q",
            "name": "web shop",
            "prefix": "llk_3Xk9",
            "scopes": ["link:links.write", "link:links.read"],
            "created_at": "2026-11-20T09:51:00.123Z",
        })
    }
}

impl From<ListedKey> for KeyView {
    fn from(key: ListedKey) -> Self {
        Self {
            id: key.key_id,
            account_id: key.account_id,
            name: key.name,
            prefix: key.prefix,
            scopes: key.scopes,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
            secret: None,
        }
    }
}

impl EntryView {
    /// Returns the view of the entry that an event made.
    pub fn of(id: EntryId, event: &CreditsEvent, recorded_at: OffsetDateTime) -> Self {
        let (kind, amount) = kind_and_change(event);
        let entry = Self {
            id,
            kind,
            amount,
            balance_after: event.balance_after(),
            reason: reason_of(event).to_owned(),
            reference: None,
            description: None,
            link_id: None,
            key_id: None,
            refunds: None,
            grant: None,
            asked: None,
            taken: None,
            short: None,
            reversed_by: None,
            actor: None,
            created_at: recorded_at,
        };
        match event {
            CreditsEvent::Granted(granted) => Self {
                reference: granted.reference.clone(),
                description: granted.description.clone(),
                ..entry
            },
            CreditsEvent::Adjusted(adjusted) => Self {
                reference: adjusted.reference.clone(),
                description: adjusted.description.clone(),
                ..entry
            },
            CreditsEvent::Charged(charged) => Self {
                link_id: Some(charged.link_id),
                key_id: Some(charged.key_id),
                ..entry
            },
            CreditsEvent::Refunded(refunded) => Self {
                link_id: Some(refunded.link_id),
                refunds: Some(refunded.refunds),
                ..entry
            },
            CreditsEvent::Revoked(revoked) => Self {
                grant: Some(revoked.grant),
                asked: Some(revoked.asked),
                taken: Some(revoked.amount),
                short: Some(revoked.short),
                ..entry
            },
        }
    }

    /// Returns the view with the actor that caused the entry.
    #[must_use]
    pub fn by(self, actor: Option<String>) -> Self {
        Self { actor, ..self }
    }

    /// Returns the view with the entry that gave the charge back, or took the grant back.
    #[must_use]
    pub fn reversed_by(self, reversed_by: Option<EntryId>) -> Self {
        Self {
            reversed_by,
            ..self
        }
    }

    /// Returns the example of the `OpenAPI` document, without an author.
    pub fn example() -> Value {
        json!({
            "id": "ent_01h455vb4pex5vsknk084sn02s",
            "type": "grant",
            "amount": 1000,
            "balance_after": 1000,
            "reason": "invoice paid",
            "reference": "invoice-2026-11-4711",
            "description": "Starter pack",
            "created_at": "2026-11-20T09:51:00.123Z",
        })
    }
}

/// Returns the type of the entry, and the change of the balance.
const fn kind_and_change(event: &CreditsEvent) -> (&'static str, i64) {
    match event {
        CreditsEvent::Granted(granted) => ("grant", granted.amount),
        CreditsEvent::Adjusted(adjusted) => ("adjustment", adjusted.amount),
        CreditsEvent::Charged(charged) => ("charge", -charged.amount),
        CreditsEvent::Refunded(refunded) => ("refund", refunded.amount),
        CreditsEvent::Revoked(revoked) => ("revocation", -revoked.amount),
    }
}

fn reason_of(event: &CreditsEvent) -> &str {
    match event {
        CreditsEvent::Granted(granted) => &granted.reason,
        CreditsEvent::Adjusted(adjusted) => &adjusted.reason,
        CreditsEvent::Charged(charged) => match charged.reason {
            ChargeReason::LinkCreated => "link_created",
        },
        CreditsEvent::Refunded(refunded) => &refunded.reason,
        CreditsEvent::Revoked(revoked) => &revoked.reason,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use time::macros::datetime;
    use utoipa::PartialSchema;
    use uuid::Uuid;

    use super::*;
    use linkledger_core::{
        account::AccountStatus,
        api_key::ApiKeyIssued,
        credits::{CreditsCharged, CreditsRefunded, CreditsRevoked},
    };

    const AT: OffsetDateTime = datetime!(2026-11-20 09:51:00.123 UTC);
    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));

    fn names(object: &Value) -> BTreeSet<&str> {
        let members = object.as_object().unwrap();
        members.keys().map(String::as_str).collect()
    }

    /// Checks that the schema has the members of the example, and requires none but those.
    fn assert_described<T: PartialSchema>(example: &Value) {
        let schema = serde_json::to_value(T::schema()).unwrap();
        let required = schema["required"].as_array().unwrap().iter();
        let required: BTreeSet<&str> = required.map(|it| it.as_str().unwrap()).collect();
        let (described, given) = (names(&schema["properties"]), names(example));
        assert!(given.is_subset(&described), "{given:?}: {described:?}");
        assert!(required.is_subset(&given), "{required:?}: {given:?}");
    }

    #[test]
    fn examples_conform_to_their_schemas() {
        assert_described::<AccountView>(&AccountView::example());
        assert_described::<KeyView>(&KeyView::example());
        assert_described::<EntryView>(&EntryView::example());
    }

    #[test]
    fn account_has_only_members_with_a_value() {
        let mut after = AccountAfter {
            name: "Example Ltd".to_owned(),
            external_id: None,
            low_balance_at: LowBalanceAt::NONE,
            status: AccountStatus::Active,
            balance: 7,
            created_at: AT,
        };
        let view = |after: &AccountAfter| json!(AccountView::of(ACCOUNT, after));
        let expected = json!({
            "id": ACCOUNT, "name": "Example Ltd", "state": "active", "balance": 7,
            "low_balance_at": [], "created_at": "2026-11-20T09:51:00.123Z",
        });
        assert_eq!(view(&after), expected);
        after.external_id = Some("crm/7".to_owned());
        after.low_balance_at = LowBalanceAt::of(vec![100, 10]).unwrap();
        after.status = AccountStatus::Suspended {
            stop_redirects: true,
        };
        let suspended = view(&after);
        assert_eq!(suspended["external_id"], "crm/7");
        assert_eq!(suspended["low_balance_at"], json!([10, 100]));
        assert_eq!(suspended["state"], "suspended");
        assert_eq!(suspended["redirects_stopped"], true);
    }

    #[test]
    fn secret_is_shown_once_and_never_logged() {
        let issued = ApiKeyIssued {
            account_id: ACCOUNT,
            key_id: KeyId::from_uuid(Uuid::from_u128(2)),
            name: "web shop".to_owned(),
            scopes: vec!["link:links.read".to_owned()],
            expires_at: None,
        };
        let key = KeyState::new(&issued, AT);
        let view = KeyView::of_state(&key, "llk_3Xk9".to_owned());
        assert_eq!(json!(view).get("secret"), None);
        let secret = ApiKey::generate();
        let first = view.with_secret(&secret);
        assert_eq!(json!(first)["secret"], secret.reveal());
        let shown = format!("{first:?}");
        assert!(!shown.contains(secret.reveal()), "{shown}");
    }

    #[test]
    fn amount_of_entry_is_the_change_of_the_balance() {
        let entry = EntryId::from_uuid(Uuid::from_u128(3));
        let link_id = LinkId::from_uuid(Uuid::from_u128(4));
        let charged = CreditsEvent::Charged(CreditsCharged {
            account_id: ACCOUNT,
            amount: 3,
            balance_after: 4,
            link_id,
            key_id: KeyId::from_uuid(Uuid::from_u128(5)),
            reason: ChargeReason::LinkCreated,
            low_balance: None,
        });
        let refunded = CreditsEvent::Refunded(CreditsRefunded {
            account_id: ACCOUNT,
            amount: 3,
            balance_after: 7,
            refunds: entry,
            link_id,
            reason: "ticket 7".to_owned(),
        });
        let revoked = CreditsEvent::Revoked(CreditsRevoked {
            account_id: ACCOUNT,
            grant: entry,
            asked: 10,
            amount: 7,
            short: 3,
            balance_after: 0,
            reason: "ticket 7".to_owned(),
        });
        for (event, kind, amount) in [
            (&charged, "charge", -3),
            (&refunded, "refund", 3),
            (&revoked, "revocation", -7),
        ] {
            let view = EntryView::of(entry, event, AT);
            assert_eq!((view.kind, view.amount), (kind, amount));
        }
        let view = json!(EntryView::of(entry, &revoked, AT));
        assert_eq!([&view["asked"], &view["taken"], &view["short"]], [10, 7, 3]);
        assert_eq!(view["grant"], json!(entry));
    }
}
