//! Commands of a commit group.

use std::iter;

use super::{BatchCreate, ChangeRequest, DecisionInput, ExternalIdKey, KeyedCreate, LinkChange};
use crate::{id::AccountId, link::LinkPatch};

/// A command of an API client.
#[derive(Debug, Clone)]
pub enum LinkCommand {
    /// Creates a link.
    Create(KeyedCreate),
    /// Creates all links of a request or none, or tries to.
    Batch(BatchCreate),
    /// Changes or deletes a link.
    Change(LinkChange),
}

impl LinkCommand {
    /// Returns the account whose row is locked while the command is decided.
    pub const fn account_id(&self) -> AccountId {
        match self {
            Self::Create(create) => create.account_id,
            Self::Batch(batch) => batch.account_id,
            Self::Change(change) => change.account_id,
        }
    }

    /// Returns the external ids that the command requests for links.
    pub fn external_ids(&self) -> impl Iterator<Item = ExternalIdKey> {
        let drafts = self.creates().iter().flat_map(|create| &create.body);
        let created = drafts.filter_map(|draft| draft.details.external_id.as_ref());
        let changed = self
            .patch()
            .and_then(|patch| patch.details.external_id.value());
        let requested = created.chain(changed);
        requested.map(|external_id| (self.account_id(), external_id.clone()))
    }

    /// Returns the creates of the command.
    pub fn creates(&self) -> &[KeyedCreate] {
        match self {
            Self::Create(create) => std::slice::from_ref(create),
            Self::Batch(batch) => &batch.creates,
            Self::Change(_) => &[],
        }
    }

    /// Returns the number of creates and changes of the command, by which queues and commit groups are
    /// bounded. Each needs [`DecisionInput`].
    pub fn size(&self) -> usize {
        self.creates().len().max(1)
    }

    /// Returns the number of bytes of the destinations of the command, also those after an expiry.
    pub fn destination_bytes(&self) -> usize {
        let drafts = self.creates().iter().flat_map(|create| &create.body);
        let created = drafts.flat_map(|draft| {
            let expired_url = draft.details.expired_url.as_deref().map(str::len);
            iter::once(draft.destination.as_str().len()).chain(expired_url)
        });
        let changed = self.patch().into_iter().flat_map(|patch| {
            let expired_url = patch.details.expired_url.value();
            let changed = patch.destination.iter().chain(expired_url);
            changed.map(|destination| destination.as_str().len())
        });
        created.chain(changed).sum()
    }

    fn patch(&self) -> Option<&LinkPatch> {
        match self {
            Self::Change(LinkChange {
                request: ChangeRequest::Patch(Ok(change)),
                ..
            }) => Some(&change.patch),
            Self::Create(_) | Self::Batch(_) | Self::Change(_) => None,
        }
    }
}

/// Pairs each command with the ids of its decisions. `ids` has [`LinkCommand::size`] ids for each
/// command, in order.
///
/// # Panics
/// Panics if `ids` is too short.
pub fn with_ids<'c>(
    commands: &'c [&'c LinkCommand],
    mut ids: &'c [DecisionInput],
) -> impl Iterator<Item = (&'c LinkCommand, &'c [DecisionInput])> {
    commands.iter().map(move |command| {
        let (own, later) = ids.split_at(command.size());
        ids = later;
        (*command, own)
    })
}
