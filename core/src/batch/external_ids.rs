//! External ids while the commands of a batch are decided.

use std::collections::HashMap;

use crate::{
    id::{AccountId, LinkId},
    link::{LinkCreated, LinkDetails, LinkState},
};

/// Account and external id.
pub type ExternalIdKey = (AccountId, String);

/// Holders of external ids: as loaded, and as changed by the batch.
#[derive(Debug, Clone, Default)]
pub(super) struct ExternalIds(HashMap<ExternalIdKey, LinkId>);

impl ExternalIds {
    /// Returns the holders. `loaded` has those of all external ids that the batch requests.
    pub(super) const fn new(loaded: HashMap<ExternalIdKey, LinkId>) -> Self {
        Self(loaded)
    }

    /// Returns the other link of the account that has the external id of the details, if any.
    pub(super) fn other_holder(
        &self,
        account_id: AccountId,
        link_id: LinkId,
        details: &LinkDetails,
    ) -> Option<LinkId> {
        let external_id = details.external_id.clone()?;
        let holder = self.0.get(&(account_id, external_id)).copied();
        holder.filter(|holder| *holder != link_id)
    }

    /// Gives the external id of a created link to the link.
    pub(super) fn give(&mut self, account_id: AccountId, created: &LinkCreated) {
        if let Some(external_id) = &created.external_id {
            let key = (account_id, external_id.clone());
            self.0.insert(key, created.link_id);
        }
    }

    /// Replaces the external id of a link. A deleted link holds none.
    pub(super) fn change(
        &mut self,
        account_id: AccountId,
        link_id: LinkId,
        before: &LinkState,
        after: &LinkState,
    ) {
        if let Some(external_id) = before.held_external_id() {
            self.0.remove(&(account_id, external_id.to_owned()));
        }
        if let Some(external_id) = after.held_external_id() {
            self.0.insert((account_id, external_id.to_owned()), link_id);
        }
    }
}
