//! Links out of service. Owner and operators disable a link independently of each other: visitors can follow
//! the link if neither of them has disabled it (`docs/api.md#disabled-links`).

use serde::{Deserialize, Serialize};

use super::{ChangeLinkError, ExistingLink, LinkDisabled, LinkEnabled, LinkEvent, LinkState};

/// Reason in the events of an owner.
const OWNERS_REASON: &str = "by the owner";

crate::named_enum! {
    /// Role of the one who disabled a link.
    #[derive(Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    pub enum DisabledBy {
        /// An operator of the service.
        Operator = "operator",
        /// The owner of the link.
        Owner = "owner",
    }
}

impl LinkState {
    /// Returns the role that the link is disabled by: the operator before the owner.
    pub const fn disabled_by(&self) -> Option<DisabledBy> {
        if self.disabled_by_operator {
            Some(DisabledBy::Operator)
        } else if self.disabled_by_owner {
            Some(DisabledBy::Owner)
        } else {
            None
        }
    }

    /// Returns true if the role has disabled the link.
    pub(super) const fn is_disabled_by(&self, role: DisabledBy) -> bool {
        match role {
            DisabledBy::Operator => self.disabled_by_operator,
            DisabledBy::Owner => self.disabled_by_owner,
        }
    }

    /// Returns the state after the role has disabled or enabled the link.
    #[must_use]
    pub(super) fn with_disabled(mut self, role: DisabledBy, is_disabled: bool) -> Self {
        match role {
            DisabledBy::Operator => self.disabled_by_operator = is_disabled,
            DisabledBy::Owner => self.disabled_by_owner = is_disabled,
        }
        self
    }
}

impl ExistingLink {
    /// Decides that an operator disables the link.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError`] if the link is deleted.
    pub fn decide_disable(&self, reason: &str) -> Result<Option<LinkEvent>, ChangeLinkError> {
        self.require_not_deleted()?;
        Ok(self.set_disabled(DisabledBy::Operator, true, reason))
    }

    /// Decides that an operator enables the link again. A link that its owner has disabled stays
    /// disabled.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError`] if the link is deleted.
    pub fn decide_enable(&self, reason: &str) -> Result<Option<LinkEvent>, ChangeLinkError> {
        self.require_not_deleted()?;
        Ok(self.set_disabled(DisabledBy::Operator, false, reason))
    }

    /// Decides that the owner disables or enables the link.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError::DisabledByOperator`] if the owner enables a link that an operator
    /// has disabled.
    pub(super) fn set_disabled_by_owner(
        &self,
        is_disabled: bool,
    ) -> Result<Option<LinkEvent>, ChangeLinkError> {
        if !is_disabled && self.state.disabled_by_operator {
            return Err(ChangeLinkError::DisabledByOperator);
        }
        Ok(self.set_disabled(DisabledBy::Owner, is_disabled, OWNERS_REASON))
    }

    fn set_disabled(&self, by: DisabledBy, is_disabled: bool, reason: &str) -> Option<LinkEvent> {
        if self.state.is_disabled_by(by) == is_disabled {
            return None;
        }
        let after = self.state.clone().with_disabled(by, is_disabled);
        let (link_id, account_id) = (self.link_id, self.account_id);
        let reason = reason.to_owned();
        Some(match (is_disabled, after.disabled_by()) {
            (true, disabled_by) => LinkEvent::Disabled(LinkDisabled {
                link_id,
                account_id,
                reason,
                by,
                disabled_by: disabled_by.unwrap_or(by),
            }),
            (false, disabled_by) => LinkEvent::Enabled(LinkEnabled {
                link_id,
                account_id,
                reason,
                by,
                disabled_by,
            }),
        })
    }
}
