//! A page of the wanted events of an account, which is found among events of all types.

use linkledger_core::{envelope::RecordedEvent, id::AccountId};
use linkledger_event_store::log::feed::{FeedPage, FeedPlace, read_page};
use sqlx::PgPool;

/// Events that a request with a filter looks at.
const SCANNED_MAX: usize = 1_000;
/// Events that one statement reads for a request with a filter.
const READ_MAX: i64 = 250;

/// Events that a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct WantedEvents {
    /// Types of the events; `None` for all types.
    pub(crate) types: Option<Vec<&'static str>>,
    /// Most events on the page.
    pub(crate) limit: u8,
}

impl WantedEvents {
    fn has(&self, event: &RecordedEvent) -> bool {
        let types = self.types.as_ref();
        types.is_none_or(|types| types.contains(&event.event_type.as_str()))
    }

    /// Returns how many events one statement reads. Without a filter it is one more than the page shows, so that
    /// `has_more` is known.
    fn count_max(&self) -> i64 {
        match self.types {
            Some(_) => READ_MAX,
            None => i64::from(self.limit) + 1,
        }
    }

    /// Adds the wanted events of the next read to the page, up to the limit.
    fn add(&self, page: &mut FeedPage, read: FeedPage) {
        for event in read.events {
            if self.is_full(page) {
                page.has_more = true;
                return;
            }
            page.next = page.next.after(&event);
            if self.has(&event) {
                page.events.push(event);
            }
        }
        page.next = read.next;
        page.has_more = read.has_more;
    }

    fn is_full(&self, page: &FeedPage) -> bool {
        page.events.len() >= usize::from(self.limit)
    }
}

/// Reads the first wanted events after a place.
pub(super) async fn scan(
    pool: &PgPool,
    account_id: AccountId,
    after: FeedPlace,
    wanted: &WantedEvents,
) -> sqlx::Result<FeedPage> {
    let mut page = FeedPage {
        events: Vec::new(),
        next: after,
        has_more: true,
    };
    let mut scanned = 0;
    while page.has_more && !wanted.is_full(&page) && scanned < SCANNED_MAX {
        let read = read_page(pool, account_id, page.next, wanted.count_max()).await?;
        scanned += read.events.len();
        wanted.add(&mut page, read);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use linkledger_core::{
        envelope::Metadata,
        id::EventId,
        shard::{Position, Shard},
    };
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    const WANTED: &str = "LinkCreated";
    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));

    /// Returns an event at a position, whose type is wanted or not, of the account's own stream or of a link.
    fn event(position: Position, (is_wanted, is_own): (bool, bool)) -> RecordedEvent {
        let link = Uuid::from_u128(2);
        RecordedEvent {
            shard: Shard::of(ACCOUNT),
            position,
            stream_id: if is_own { ACCOUNT.uuid() } else { link },
            version: position,
            account_id: ACCOUNT,
            event_id: EventId::from_uuid(Uuid::nil()),
            event_type: if is_wanted { WANTED } else { "CreditsCharged" }.to_owned(),
            schema_version: 1,
            payload: "{}".to_owned(),
            metadata: Metadata::default(),
            recorded_at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    /// Returns what the statement would read.
    fn read(log: &[RecordedEvent], after: FeedPlace, limit: usize) -> FeedPage {
        let events = log.iter().filter(|event| event.position > after.position);
        let events: Vec<_> = events.take(limit).cloned().collect();
        FeedPage {
            next: events.iter().fold(after, FeedPlace::after),
            has_more: events.len() >= limit,
            events,
        }
    }

    fn wanted(types: Option<Vec<&'static str>>, limit: u8) -> WantedEvents {
        WantedEvents { types, limit }
    }

    #[test]
    fn page_without_a_filter_knows_whether_more_follow() {
        let log: Vec<_> = (1..=3).map(|it| event(it, (true, true))).collect();
        for (limit, has_more) in [(1, true), (2, true), (3, false), (4, false)] {
            let wanted = wanted(None, limit);
            let mut page = read(&[], FeedPlace::BEGINNING, 1);
            let count = usize::try_from(wanted.count_max()).unwrap();
            wanted.add(&mut page, read(&log, FeedPlace::BEGINNING, count));
            assert_eq!(page.has_more, has_more, "{limit}");
            assert_eq!(page.events, &log[..usize::from(limit).min(3)]);
        }
    }

    proptest! {
        #[test]
        fn scan_has_each_wanted_event_once_in_order(
            log in prop::collection::vec(any::<(bool, bool)>(), 0..60),
            limit in 1..6_u8,
            count in 1..9_usize,
        ) {
            let log: Vec<_> = (1..).zip(log).map(|(it, kind)| event(it, kind)).collect();
            let wanted = wanted(Some(vec![WANTED]), limit);
            let (mut seen, mut place) = (Vec::new(), FeedPlace::BEGINNING);
            for _ in 0..=2 * log.len() {
                let mut page = read(&[], place, 1);
                wanted.add(&mut page, read(&log, place, count));
                prop_assert!(page.events.len() <= usize::from(limit));
                // The place is that of the last event before it.
                let before = log.iter().take_while(|it| it.position <= page.next.position);
                prop_assert_eq!(page.next, before.fold(FeedPlace::BEGINNING, FeedPlace::after));
                seen.extend(page.events);
                place = page.next;
                if !page.has_more {
                    break;
                }
            }
            let expected = log.into_iter().filter(|it| it.event_type == WANTED);
            prop_assert_eq!(seen, expected.collect::<Vec<_>>());
        }
    }
}
