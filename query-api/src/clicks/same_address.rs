//! Notices that clicks have the address of a proxy: one that is not listed in `TRUSTED_PROXIES`.

use std::net::IpAddr;

use linkledger_service::metrics::CLICKS_SAME_ADDRESS;
use metrics::gauge;
use sqlx::PgPool;

use super::frame::RequestFacts;

/// Number of clicks in a row from one source that are suspicious.
const SUSPICIOUS_MIN: u32 = 1_000;

/// Counts the running recorders, of any process, whose recent clicks have one client address.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn suspicious_recorders(pool: &PgPool) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"
        SELECT count(*) AS "count!" FROM clicks.recorders
        WHERE same_address AND ended_at IS NULL AND seen_at > now() - interval '60 s'
        "#
    )
    .fetch_one(pool)
    .await
}

/// Length of the run of clicks from one source.
#[derive(Debug, Default)]
pub(super) struct SameAddress {
    source: Source,
    count: u32,
    is_logged: bool,
}

/// Source of a click, as query-api sees it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Source {
    #[default]
    Unknown,
    Address(IpAddr),
    /// Peers with private addresses that send `Forwarded` or `X-Forwarded-For` and are not in `TRUSTED_PROXIES`, so
    /// that the header is ignored. They are one source: several proxies may take turns.
    UnlistedProxies,
}

impl SameAddress {
    /// Adds a click.
    pub(super) fn observe(&mut self, click: &RequestFacts) {
        let source = match click.client_address {
            _ if click.is_of_unlisted_proxy => Source::UnlistedProxies,
            Some(address) => Source::Address(address),
            None => Source::Unknown,
        };
        if source != self.source || source == Source::Unknown {
            if self.is_suspicious() {
                gauge!(CLICKS_SAME_ADDRESS).set(0.0);
            }
            (self.source, self.count) = (source, 0);
        }
        self.count = self.count.saturating_add(1);
        if self.count == SUSPICIOUS_MIN {
            gauge!(CLICKS_SAME_ADDRESS).set(1.0);
            // The address itself is never logged.
            if !std::mem::replace(&mut self.is_logged, true) {
                tracing::warn!(
                    clicks = SUSPICIOUS_MIN,
                    "all recent clicks have the same client address, or private addresses of peers that send \
                     Forwarded or X-Forwarded-For; if query-api is behind proxies, name them in \
                     --trusted-proxies (TRUSTED_PROXIES), or visitors and countries are wrong"
                );
            }
        }
    }

    /// Returns true while the run is suspiciously long.
    pub(super) fn is_suspicious(&self) -> bool {
        self.count >= SUSPICIOUS_MIN
    }
}

#[cfg(test)]
mod tests {
    use linkledger_core::id::{AccountId, LinkId};
    use uuid::Uuid;

    use super::*;

    fn observe(same: &mut SameAddress, address: &str, is_of_unlisted_proxy: bool) {
        same.observe(&RequestFacts {
            link_id: LinkId::from_uuid(Uuid::nil()),
            account_id: AccountId::from_uuid(Uuid::nil()),
            is_head: false,
            is_prefetch: false,
            wants_privacy: false,
            client_address: address.parse().ok(),
            is_of_unlisted_proxy,
        });
    }

    #[test]
    fn long_run_of_one_address_is_suspicious() {
        let mut same = SameAddress::default();
        for _ in 1..SUSPICIOUS_MIN {
            observe(&mut same, "192.0.2.1", false);
        }
        assert!(!same.is_suspicious());
        observe(&mut same, "192.0.2.1", false);
        assert!(same.is_suspicious() && same.is_logged);
        observe(&mut same, "192.0.2.2", false);
        assert!(!same.is_suspicious());
    }

    #[test]
    fn unlisted_proxies_in_turn_are_suspicious() {
        let mut same = SameAddress::default();
        for number in 0..SUSPICIOUS_MIN {
            observe(&mut same, &format!("10.0.0.{}", number % 2), true);
        }
        assert!(same.is_suspicious());
        observe(&mut same, "10.0.0.1", false);
        assert!(!same.is_suspicious());
    }
}
