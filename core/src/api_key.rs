//! API keys of accounts and admin keys of operators: secrets, scopes, and the events of API keys
//! (`docs/api.md#api-keys`).

mod event;
mod secret;
mod state;
#[cfg(test)]
mod tests;

pub use event::{
    ApiKeyChanged, ApiKeyChanges, ApiKeyEvent, ApiKeyIssued, ApiKeyRevoked, ApiKeyRotated,
};
pub use secret::{AdminKey, ApiKey};
pub use state::{KeyChangeRequest, KeyState};

crate::named_enum! {
    /// A permission of an API key.
    pub enum Scope {
        /// Permission to create, change and delete links.
        LinksWrite = "link:links.write",
        /// Permission to read links.
        LinksRead = "link:links.read",
        /// Permission to read the balance and the ledger.
        CreditsRead = "link:credits.read",
        /// Permission to read statistics of clicks.
        ClicksRead = "link:clicks.read",
        /// Permission to read all events of the account.
        EventsRead = "link:events.read",
        /// Permission to read webhooks and their deliveries.
        WebhooksRead = "link:webhooks.read",
        /// Permission to create, change, test and delete webhooks, and to send messages again.
        WebhooksWrite = "link:webhooks.write",
    }
}

crate::named_enum! {
    /// A permission of an admin key.
    pub enum AdminScope {
        /// Permission to read everything.
        Read = "admin:read",
        /// Permission to create, change, suspend and resume accounts.
        Accounts = "admin:accounts",
        /// Permission to issue, change, rotate and revoke API keys of accounts.
        Keys = "admin:keys",
        /// Permission to change credits of accounts.
        Credits = "admin:credits",
        /// Permission to disable and enable links.
        Links = "admin:links",
        /// Permission to pause and resume followers of the log.
        Operations = "admin:operations",
        /// Permission to create, change and delete webhooks that receive the events of all accounts.
        Webhooks = "admin:webhooks",
    }
}

impl Scope {
    /// Returns the names of the scopes, each once, in the order of [`Scope::ALL`].
    pub fn names(scopes: &[Self]) -> Vec<String> {
        let given = Self::ALL.into_iter().filter(|scope| scopes.contains(scope));
        given.map(|scope| scope.name().to_owned()).collect()
    }
}
