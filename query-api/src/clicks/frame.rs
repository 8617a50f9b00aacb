//! Clicks in the buffer of a thread: what the requests say, before it is classified.

use std::{collections::HashMap, net::IpAddr};

use linkledger_clicks::ClickKind;
use linkledger_core::id::{AccountId, LinkId};

/// Number of frames, and bytes of their texts, for which a buffer keeps memory after a burst.
const FRAMES_USUAL: usize = 1_024;
const TEXT_BYTES_USUAL: usize = 128 << 10;

/// A click as the request tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawClick<'a> {
    pub(super) facts: RequestFacts,
    /// Lower-cased slug.
    pub(super) slug: &'a str,
    /// `User-Agent`, cut; empty if absent.
    pub(super) user_agent: &'a [u8],
    /// `Referer`, cut; empty if absent.
    pub(super) referer: &'a [u8],
}

/// Facts of a click besides its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a request"
)]
pub(super) struct RequestFacts {
    pub(super) link_id: LinkId,
    pub(super) account_id: AccountId,
    pub(super) is_head: bool,
    pub(super) is_prefetch: bool,
    /// True if the visitor asks not to be tracked.
    pub(super) wants_privacy: bool,
    pub(super) client_address: Option<IpAddr>,
    /// True if the address seems to be that of a proxy that is not listed in `TRUSTED_PROXIES`.
    pub(super) is_of_unlisted_proxy: bool,
}

/// Click in a buffer. Small: its size decides how many clicks a buffer holds.
#[derive(Debug)]
struct Frame {
    clicked_at_ms: i64,
    facts: RequestFacts,
    /// Index in the texts of the buffer at which slug, user agent and referrer follow each other.
    texts_begin: u32,
    /// Lengths of slug, user agent and referrer, in bytes.
    lengths: [u16; 3],
}

/// Clicks in the order of their requests, without an allocation for each.
#[derive(Debug, Default)]
pub(super) struct Frames {
    clicks: Vec<Frame>,
    texts: Vec<u8>,
    /// Number of frames that were read.
    read: usize,
}

impl RequestFacts {
    /// Returns the kind of the click; `has_bot_agent` says whether the user agent is that of a bot.
    pub(super) fn kind(&self, has_bot_agent: bool) -> ClickKind {
        if self.is_head || self.is_prefetch || has_bot_agent {
            ClickKind::Bot
        } else {
            ClickKind::Human
        }
    }
}

impl RawClick<'_> {
    /// Returns the number of bytes of the click in a buffer.
    pub(super) fn frame_bytes(&self) -> usize {
        size_of::<Frame>() + self.slug.len() + self.user_agent.len() + self.referer.len()
    }
}

impl Frames {
    /// Returns the number of bytes of the clicks, read or not.
    pub(super) fn bytes(&self) -> usize {
        self.clicks.len() * size_of::<Frame>() + self.texts.len()
    }

    /// Returns the bytes of the clicks of each account.
    pub(super) fn bytes_by_account(&self) -> HashMap<AccountId, usize> {
        let mut accounts = HashMap::<_, usize>::new();
        for frame in &self.clicks {
            let texts: usize = frame.lengths.into_iter().map(usize::from).sum();
            *accounts.entry(frame.facts.account_id).or_default() += size_of::<Frame>() + texts;
        }
        accounts
    }

    /// Adds a click with its instant, in milliseconds since 1970.
    pub(super) fn push(&mut self, clicked_at_ms: i64, click: &RawClick<'_>) {
        let texts_begin = u32::try_from(self.texts.len()).expect("a buffer of a few MiB");
        let texts = [click.slug.as_bytes(), click.user_agent, click.referer];
        let lengths = texts.map(|text| {
            self.texts.extend_from_slice(text);
            u16::try_from(text.len()).expect("a cut value")
        });
        self.clicks.push(Frame {
            clicked_at_ms,
            facts: click.facts,
            texts_begin,
            lengths,
        });
    }

    /// Reads the next click, and its instant. A click is read once, even if its reader panics.
    pub(super) fn read_next(&mut self) -> Option<(i64, RawClick<'_>)> {
        let frame = self.clicks.get(self.read)?;
        self.read += 1;
        let mut rest = &self.texts[frame.texts_begin as usize..];
        let [slug, user_agent, referer] = frame.lengths.map(|length| {
            let (text, later) = rest.split_at(length.into());
            rest = later;
            text
        });
        let click = RawClick {
            facts: frame.facts,
            slug: str::from_utf8(slug).expect("a slug as it was pushed"),
            user_agent,
            referer,
        };
        Some((frame.clicked_at_ms, click))
    }

    /// Returns the number of clicks that are not read yet.
    pub(super) fn unread(&self) -> usize {
        self.clicks.len() - self.read
    }

    /// Removes all clicks, and the memory that only a burst needed.
    pub(super) fn clear(&mut self) {
        self.read = 0;
        self.clicks.clear();
        self.clicks.shrink_to(FRAMES_USUAL);
        self.texts.clear();
        self.texts.shrink_to(TEXT_BYTES_USUAL);
    }
}

#[cfg(test)]
mod tests {
    use linkledger_clicks::{HEADER_BYTES_MAX, cut};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    proptest! {
        #[test]
        fn frames_are_read_as_pushed(
            ids in any::<[u128; 2]>(),
            clicked_at_ms in any::<i64>(),
            slug in "[a-z0-9._-]{1,64}",
            flags in any::<[bool; 4]>(),
            address in prop::option::of(any::<IpAddr>()),
            user_agent in prop::collection::vec(any::<u8>(), 0..8_192),
            referer in prop::collection::vec(any::<u8>(), 0..8_192),
        ) {
            let click = RawClick {
                facts: RequestFacts {
                    link_id: LinkId::from_uuid(Uuid::from_u128(ids[0])),
                    account_id: AccountId::from_uuid(Uuid::from_u128(ids[1])),
                    is_head: flags[0],
                    is_prefetch: flags[1],
                    wants_privacy: flags[2],
                    client_address: address,
                    is_of_unlisted_proxy: flags[3],
                },
                slug: &slug,
                user_agent: cut(&user_agent),
                referer: cut(&referer),
            };
            let mut frames = Frames::default();
            frames.push(clicked_at_ms, &click);
            prop_assert_eq!(frames.bytes(), click.frame_bytes());
            prop_assert!(frames.bytes() <= size_of::<Frame>() + 64 + 2 * HEADER_BYTES_MAX);
            frames.push(clicked_at_ms, &click);
            let accounts = HashMap::from([(click.facts.account_id, 2 * click.frame_bytes())]);
            prop_assert_eq!(frames.bytes_by_account(), accounts);
            for unread in [1, 0] {
                prop_assert_eq!(frames.read_next(), Some((clicked_at_ms, click)));
                prop_assert_eq!(frames.unread(), unread);
            }
            prop_assert!(frames.read_next().is_none());
        }
    }
}
