//! Values of `Cache-Control`.

/// Value for an answer that belongs to one account and may change at any time.
pub(crate) const NOT_SHARED: &str = "private, no-cache";
