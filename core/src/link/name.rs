//! Names of links, as people type them: an id, a slug, or the whole short address.

use std::{fmt, str::FromStr};

use url::Url;

use super::Slug;
use crate::id::{AccountId, LinkId};

/// Refusal of a text that is no id, no slug and no short address.
const INVALID_LINK_NAME: &str = "a link is named by its id (lnk_…), its slug or its short address";
/// Refusal of a text that names neither an account nor a link.
const INVALID_SUBJECT_NAME: &str = "an account is named by its id (acc_…), a link by its id (lnk_…), its slug or its short address";

/// Name that a person gives to a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkName {
    /// Id of the link.
    Id(LinkId),
    /// Slug of the link.
    Slug(Slug),
    /// Short address of the link.
    ShortAddress(ShortAddress),
}

/// Short address of a link, without scheme, query and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortAddress {
    /// Host, port and path up to the slug.
    base: String,
    slug: Slug,
}

/// Name that a person gives to an account or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectName {
    /// Id of an account.
    Account(AccountId),
    /// Name of a link.
    Link(LinkName),
}

impl LinkName {
    /// Returns the slug, unless the link is named by its id.
    pub const fn slug(&self) -> Option<&Slug> {
        match self {
            Self::Id(_) => None,
            Self::Slug(slug) | Self::ShortAddress(ShortAddress { slug, .. }) => Some(slug),
        }
    }

    /// Returns true if the name fits a link that has the id or slug of the name, and this short address. Only a
    /// name that is a short address can be wrong: of another host, port or path.
    pub fn matches_short_url(&self, short_url: &str) -> bool {
        match self {
            Self::Id(_) | Self::Slug(_) => true,
            Self::ShortAddress(given) => short_url
                .parse::<ShortAddress>()
                .is_ok_and(|stored| given.base == stored.base),
        }
    }
}

impl FromStr for LinkName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if let Ok(link_id) = text.parse() {
            return Ok(Self::Id(link_id));
        }
        if text.contains('/') {
            return text.parse().map(Self::ShortAddress);
        }
        let slug = Slug::parse_stored(text).map_err(|_| INVALID_LINK_NAME)?;
        Ok(Self::Slug(slug))
    }
}

impl ShortAddress {
    /// Returns the slug at the end of the address.
    pub const fn slug(&self) -> &Slug {
        &self.slug
    }
}

impl FromStr for ShortAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let address = match text.split_once("://") {
            Some(("http" | "https", rest)) => rest,
            Some(_) => return Err(INVALID_LINK_NAME),
            None => text,
        };
        // One scheme for all: `http` and `https` differ only in a default port, which both forms leave out.
        let url: Url = format!("https://{address}")
            .parse()
            .map_err(|_| INVALID_LINK_NAME)?;
        let (path, slug) = url.path().rsplit_once('/').ok_or(INVALID_LINK_NAME)?;
        let slug = Slug::parse_stored(slug).map_err(|_| INVALID_LINK_NAME)?;
        let base = format!("{}{path}", url.authority());
        Ok(Self { base, slug })
    }
}

impl FromStr for SubjectName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if let Ok(account_id) = text.parse() {
            return Ok(Self::Account(account_id));
        }
        let link = text.parse().map_err(|_| INVALID_SUBJECT_NAME)?;
        Ok(Self::Link(link))
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(account_id) => account_id.fmt(f),
            Self::Link(name) => write!(f, "link {name}"),
        }
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(link_id) => link_id.fmt(f),
            Self::Slug(slug) => write!(f, "with the slug {slug}"),
            Self::ShortAddress(ShortAddress { base, slug }) => {
                write!(f, "with the short address {base}/{slug}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_named_by_id_slug_or_short_address() {
        let id = "lnk_01jd3k5x7zexrbfmv2pcg9h4ta";
        assert!(matches!(id.parse(), Ok(LinkName::Id(link_id)) if link_id.to_string() == id));
        for text in [
            "Spring",
            "http://sho.rt/Spring",
            "https://SHO.RT/Spring?a=b#c",
            "sho.rt/Spring",
        ] {
            let name: LinkName = text.parse().unwrap();
            assert_eq!(name.slug().map(Slug::as_str), Some("Spring"), "{text}");
            assert!(name.matches_short_url("https://sho.rt/spring"), "{text}");
        }
        for text in [
            "",
            "a b",
            "ftp://sho.rt/spring",
            "https://sho.rt/",
            "https://sho.rt/spring/",
            "http:///spring/..",
            "sho.rt/%zz",
        ] {
            assert!(text.parse::<LinkName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn address_of_another_place_names_no_link() {
        let short_url = "http://127.0.0.1:8081/go/spring";
        for (text, matches_short_url) in [
            ("spring", true),
            ("127.0.0.1:8081/go/spring", true),
            ("127.0.0.1/go/spring", false),
            ("127.0.0.1:8081/spring", false),
            ("https://example.com/go/spring", false),
            ("https://127.0.0.1:8081@example.com/go/spring", false),
        ] {
            let name: LinkName = text.parse().unwrap();
            assert_eq!(
                name.matches_short_url(short_url),
                matches_short_url,
                "{text}"
            );
        }
    }

    #[test]
    fn account_is_named_by_its_id() {
        let account = "acc_01jd3k5x7zexrbfmv2pcg9h4ta";
        assert!(matches!(account.parse(), Ok(SubjectName::Account(_))));
        assert!(matches!("spring".parse(), Ok(SubjectName::Link(_))));
        assert!("a b".parse::<SubjectName>().is_err());
    }
}
