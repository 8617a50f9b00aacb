//! Bytes of a click in the buffer of a thread: what the request says, before it is classified.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkledger_core::id::{AccountId, LinkId};
use uuid::Uuid;

/// Bytes of the members of fixed length: length of the frame, instant, link, account, flags, address,
/// and lengths of slug, user agent and referrer.
const HEAD_BYTES: usize = 2 + 8 + 16 + 16 + 1 + 16 + 1 + 2 + 2;

const IS_HEAD: u8 = 1;
const IS_PREFETCH: u8 = 2;
const WANTS_PRIVACY: u8 = 4;
const HAS_IPV4: u8 = 8;
const HAS_IPV6: u8 = 16;
const IS_OF_UNLISTED_PROXY: u8 = 32;

/// A click as the request tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a request, each a bit of the frame"
)]
pub(super) struct RawClick<'a> {
    pub(super) link_id: LinkId,
    pub(super) account_id: AccountId,
    /// Folded slug.
    pub(super) slug: &'a str,
    pub(super) is_head: bool,
    pub(super) is_prefetch: bool,
    /// True if the visitor asks not to be tracked.
    pub(super) wants_privacy: bool,
    pub(super) client_address: Option<IpAddr>,
    /// True if the address seems to be that of a proxy that is not listed in `TRUSTED_PROXIES`.
    pub(super) is_of_unlisted_proxy: bool,
    /// `User-Agent`, cut; empty if absent.
    pub(super) user_agent: &'a [u8],
    /// `Referer`, cut; empty if absent.
    pub(super) referer: &'a [u8],
}

/// A click with its instant, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) clicked_at_ms: i64,
    pub(super) click: RawClick<'a>,
}

impl RawClick<'_> {
    /// Returns the number of bytes of the frame.
    pub(super) fn frame_bytes(&self) -> usize {
        HEAD_BYTES + self.slug.len() + self.user_agent.len() + self.referer.len()
    }

    fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        flag(self.is_head, IS_HEAD)
            | flag(self.is_prefetch, IS_PREFETCH)
            | flag(self.wants_privacy, WANTS_PRIVACY)
            | flag(self.is_of_unlisted_proxy, IS_OF_UNLISTED_PROXY)
            | match self.client_address {
                None => 0,
                Some(IpAddr::V4(_)) => HAS_IPV4,
                Some(IpAddr::V6(_)) => HAS_IPV6,
            }
    }
}

impl<'a> Frame<'a> {
    /// Appends the frame to a buffer.
    pub(super) fn append_to(&self, buffer: &mut Vec<u8>) {
        let click = &self.click;
        let length = |part: &[u8]| u16::try_from(part.len()).expect("a cut value");
        let slug_length = u8::try_from(click.slug.len()).expect("a short slug");
        let address = match click.client_address {
            None => [0; 16],
            Some(IpAddr::V4(address)) => address.to_ipv6_mapped().octets(),
            Some(IpAddr::V6(address)) => address.octets(),
        };
        let total = u16::try_from(click.frame_bytes()).expect("cut values");
        buffer.extend_from_slice(&total.to_le_bytes());
        buffer.extend_from_slice(&self.clicked_at_ms.to_le_bytes());
        buffer.extend_from_slice(click.link_id.uuid().as_bytes());
        buffer.extend_from_slice(click.account_id.uuid().as_bytes());
        buffer.push(click.flags());
        buffer.extend_from_slice(&address);
        buffer.push(slug_length);
        buffer.extend_from_slice(&length(click.user_agent).to_le_bytes());
        buffer.extend_from_slice(&length(click.referer).to_le_bytes());
        buffer.extend_from_slice(click.slug.as_bytes());
        buffer.extend_from_slice(click.user_agent);
        buffer.extend_from_slice(click.referer);
    }

    /// Reads the first frame of a buffer, and returns the rest of the buffer too; `None` at the end.
    pub(super) fn read(buffer: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let total = usize::from(u16::from_le_bytes(*buffer.first_chunk()?));
        let (frame, rest) = buffer.split_at_checked(total)?;
        let mut parts = Parts(frame.get(2..)?);
        let clicked_at_ms = i64::from_le_bytes(parts.array()?);
        let link_id = LinkId::from_uuid(Uuid::from_bytes(parts.array()?));
        let account_id = AccountId::from_uuid(Uuid::from_bytes(parts.array()?));
        let [flags] = parts.array()?;
        let address = Ipv6Addr::from(parts.array::<16>()?);
        let [slug_length] = parts.array()?;
        let user_agent_length = u16::from_le_bytes(parts.array()?);
        let referer_length = u16::from_le_bytes(parts.array()?);
        let slug = std::str::from_utf8(parts.take(slug_length.into())?).ok()?;
        let click = RawClick {
            link_id,
            account_id,
            slug,
            is_head: flags & IS_HEAD != 0,
            is_prefetch: flags & IS_PREFETCH != 0,
            wants_privacy: flags & WANTS_PRIVACY != 0,
            client_address: client_address(flags, address),
            is_of_unlisted_proxy: flags & IS_OF_UNLISTED_PROXY != 0,
            user_agent: parts.take(user_agent_length.into())?,
            referer: parts.take(referer_length.into())?,
        };
        Some((
            Self {
                clicked_at_ms,
                click,
            },
            rest,
        ))
    }
}

fn client_address(flags: u8, address: Ipv6Addr) -> Option<IpAddr> {
    if flags & HAS_IPV4 != 0 {
        address.to_ipv4_mapped().map(|it: Ipv4Addr| it.into())
    } else {
        (flags & HAS_IPV6 != 0).then_some(address.into())
    }
}

/// Rest of a frame.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*part)
    }
}

#[cfg(test)]
mod tests {
    use linkledger_core::click::{HEADER_BYTES_MAX, cut};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_are_read_as_written(
            ids in any::<[u128; 2]>(),
            clicked_at_ms in any::<i64>(),
            slug in "[a-z0-9._-]{1,64}",
            flags in any::<[bool; 4]>(),
            address in prop::option::of(any::<IpAddr>()),
            user_agent in prop::collection::vec(any::<u8>(), 0..8_192),
            referer in prop::collection::vec(any::<u8>(), 0..8_192),
        ) {
            let click = RawClick {
                link_id: LinkId::from_uuid(Uuid::from_u128(ids[0])),
                account_id: AccountId::from_uuid(Uuid::from_u128(ids[1])),
                slug: &slug,
                is_head: flags[0],
                is_prefetch: flags[1],
                wants_privacy: flags[2],
                client_address: address,
                is_of_unlisted_proxy: flags[3],
                user_agent: cut(&user_agent),
                referer: cut(&referer),
            };
            let frame = Frame { clicked_at_ms, click };
            let mut buffer = Vec::new();
            frame.append_to(&mut buffer);
            prop_assert_eq!(buffer.len(), click.frame_bytes());
            prop_assert!(buffer.len() <= HEAD_BYTES + 64 + 2 * HEADER_BYTES_MAX);
            frame.append_to(&mut buffer);
            let (first, rest) = Frame::read(&buffer).unwrap();
            prop_assert_eq!(first, frame);
            let (second, rest) = Frame::read(rest).unwrap();
            prop_assert_eq!(second, frame);
            prop_assert!(Frame::read(rest).is_none());
        }

        #[test]
        fn any_bytes_are_a_frame_or_none(bytes in prop::collection::vec(any::<u8>(), 0..2_048)) {
            if let Some((_, rest)) = Frame::read(&bytes) {
                prop_assert!(rest.len() < bytes.len());
            }
        }
    }
}
