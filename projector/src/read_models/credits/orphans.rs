//! Rows of `read_model.credit_entries` and `read_model.credit_balances` that no event explains.

use crate::read_models::description::Explanation;

/// Shard of the row's account.
const OWNER: &str = "event_store.accounts AS owner ON owner.account_id = page.account_id";

/// Credit event of the entry's version.
pub(super) const BOOKED: Explanation = Explanation {
    owner: OWNER,
    event: "e.stream_id = page.account_id AND e.version = page.version
            AND e.type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')",
};

/// First credit event of the account.
pub(super) const FIRST_BOOKED: Explanation = Explanation {
    owner: OWNER,
    event: "e.stream_id = page.account_id
            AND e.type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')",
};
