//! Dimensions: the details by which clicks are counted.

use super::ClickDetails;

linkledger_core::named_enum! {
    /// Detail of a click by whose value clicks are counted, in the order of the columns of the tables of values.
    #[derive(PartialOrd, Ord)]
    pub enum Dimension {
        /// Country of the visitor.
        Country = "country",
        /// Host of the page with the link.
        ReferrerHost = "referrer_host",
        /// Family of the browser.
        Browser = "browser",
        /// Family of the operating system.
        Os = "os",
        /// Form of the device.
        Device = "device",
    }
}

/// Value of the clicks without a value.
pub const NO_VALUE: &str = "";

/// Value of the clicks whose values came after the first [`VALUES_MAX`] of their group.
pub const OTHER_VALUES: &str = "*";

/// Number of values that are counted apart in a group: a link or an account's partition, a day and a dimension.
/// [`NO_VALUE`] and [`OTHER_VALUES`] are not among them.
pub const VALUES_MAX: usize = 100;

impl Dimension {
    /// Returns the value of a click; [`NO_VALUE`] if the detail is unknown.
    pub fn value_of(self, details: &ClickDetails) -> &str {
        let value = match self {
            Self::Country => details.country.as_deref(),
            Self::ReferrerHost => details.referrer_host.as_deref(),
            Self::Browser => details.browser.as_deref(),
            Self::Os => details.os.as_deref(),
            Self::Device => details.device.map(super::Device::name),
        };
        value.unwrap_or(NO_VALUE)
    }
}
