//! Read model `redirects`.

mod changes;
mod folded_slugs;
pub mod projection;
mod stopped_accounts;

pub(crate) use self::folded_slugs::fold;
pub use self::{changes::RedirectChanges, folded_slugs::FoldedSlugs};
