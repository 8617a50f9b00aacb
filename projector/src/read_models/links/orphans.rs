//! Rows of `read_model.links` that no event explains.

use crate::read_models::description::Explanation;

/// Creation of the link, by the account of the row.
pub(super) const CREATED: Explanation = Explanation {
    owner: "event_store.accounts AS owner ON owner.account_id = page.account_id",
    event: "e.stream_id = page.link_id AND e.version = 1 AND e.account_id = page.account_id
            AND e.type = 'LinkCreated'",
};
