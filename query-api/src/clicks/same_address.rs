//! Notices that all clicks have one client address: a proxy that is not named in `TRUSTED_PROXIES`.

use std::net::IpAddr;

use linkledger_core::metrics::CLICKS_SAME_ADDRESS;
use metrics::gauge;

/// Number of clicks in a row with one address that are suspicious.
const SUSPICIOUS_MIN: u32 = 1_000;

/// Length of the run of clicks with one address.
#[derive(Debug, Default)]
pub(super) struct SameAddress {
    address: Option<IpAddr>,
    count: u32,
    is_logged: bool,
}

impl SameAddress {
    /// Adds a click.
    pub(super) fn observe(&mut self, address: Option<IpAddr>) {
        if address != self.address || address.is_none() {
            if self.is_suspicious() {
                gauge!(CLICKS_SAME_ADDRESS).set(0.0);
            }
            (self.address, self.count) = (address, 0);
        }
        self.count = self.count.saturating_add(1);
        if self.count == SUSPICIOUS_MIN {
            gauge!(CLICKS_SAME_ADDRESS).set(1.0);
            // The address itself is never logged.
            if !std::mem::replace(&mut self.is_logged, true) {
                tracing::warn!(
                    clicks = SUSPICIOUS_MIN,
                    "all recent clicks have the same client address; if query-api is behind a proxy, name \
                     the proxy in --trusted-proxies (TRUSTED_PROXIES), or visitors and countries are wrong"
                );
            }
        }
    }

    fn is_suspicious(&self) -> bool {
        self.count >= SUSPICIOUS_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_run_of_one_address_is_suspicious() {
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().ok());
        let mut same = SameAddress::default();
        for _ in 1..SUSPICIOUS_MIN {
            same.observe(one);
        }
        assert!(!same.is_suspicious());
        same.observe(one);
        assert!(same.is_suspicious() && same.is_logged);
        same.observe(other);
        assert!(!same.is_suspicious());
    }
}
