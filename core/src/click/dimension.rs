//! Dimensions: the details by which clicks are counted.

use super::ClickDetails;

/// Detail of a click by whose value clicks are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Country of the visitor.
    Country,
    /// Host of the page with the link.
    ReferrerHost,
    /// Family of the browser.
    Browser,
    /// Family of the operating system.
    Os,
    /// Form of the device.
    Device,
}

/// Value of the clicks without a value.
pub const NO_VALUE: &str = "";

/// Value of the clicks whose values came after the first [`VALUES_MAX`] of their group.
pub const OTHER_VALUES: &str = "*";

/// Number of values that are counted apart in a group: a link or an account's partition, a day and a dimension.
/// [`NO_VALUE`] and [`OTHER_VALUES`] are not among them.
pub const VALUES_MAX: usize = 100;

impl Dimension {
    /// All dimensions, in the order of the columns of the tables of values.
    pub const ALL: [Self; 5] = [
        Self::Country,
        Self::ReferrerHost,
        Self::Browser,
        Self::Os,
        Self::Device,
    ];

    /// Returns the name in requests and answers, and of the column of the tables of values.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Country => "country",
            Self::ReferrerHost => "referrer_host",
            Self::Browser => "browser",
            Self::Os => "os",
            Self::Device => "device",
        }
    }

    /// Returns the dimension with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|dimension| dimension.name() == name)
    }

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
