//! Rows of `read_model.redirects` that no event explains.

use crate::read_models::description::Explanation;

/// Creation of the link that owns the slug.
pub(super) const CREATED: Explanation = Explanation {
    owner: "event_store.slugs AS owner ON owner.slug_folded = page.slug_folded",
    event: "e.stream_id = owner.link_id AND e.version = 1 AND e.type = 'LinkCreated'",
};
