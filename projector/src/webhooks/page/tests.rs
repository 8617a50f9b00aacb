use linkledger_core::{
    account::{AccountEvent, AccountSuspended},
    credits::{ChargeReason, CreditsCharged, CreditsEvent},
    envelope::Metadata,
    event::Event,
    id::{AccountId, KeyId, LinkId, WebhookId},
    link::LinkEvent,
    webhook::{SecretVersion, UrlRules, WebhookCreated},
};
use linkledger_testing::{events::granted, link_created};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));
const LINK: LinkId = LinkId::from_uuid(Uuid::from_u128(2));

fn webhook(types: &[MessageType], all_accounts: bool) -> Webhook {
    let created = WebhookCreated {
        account_id: ACCOUNT,
        webhook_id: WebhookId::from_uuid(Uuid::from_u128(3)),
        url: UrlRules::default()
            .parse("https://hooks.example.com/")
            .unwrap(),
        types: types.iter().map(|it| it.name().to_owned()).collect(),
        description: None,
        in_order: false,
        all_accounts,
        secret: SecretVersion {
            master_key_id: "first".to_owned(),
            generation: 1,
        },
    };
    Webhook::new(&created, OffsetDateTime::UNIX_EPOCH)
}

fn created() -> Event {
    let link = link_created(LINK, ACCOUNT, "slug-of-test", "https://example.com/");
    Event::Link(LinkEvent::Created(link))
}

fn charged() -> Event {
    charged_below(None)
}

/// Returns a charge that crosses a threshold.
fn charged_below(low_balance: Option<i64>) -> Event {
    Event::Credits(CreditsEvent::Charged(CreditsCharged {
        account_id: ACCOUNT,
        amount: 1,
        balance_after: 0,
        link_id: LINK,
        key_id: KeyId::from_uuid(Uuid::from_u128(4)),
        reason: ChargeReason::LinkCreated,
        low_balance,
    }))
}

fn suspended() -> Event {
    Event::Account(AccountEvent::Suspended(AccountSuspended {
        account_id: ACCOUNT,
        reason: "test".to_owned(),
        stop_redirects: false,
    }))
}

/// Returns the events at the positions from 1. All versions equal the positions.
fn log(events: &[Event]) -> Vec<RecordedEvent> {
    let recorded = (1..).zip(events).map(|(position, event)| RecordedEvent {
        shard: Shard::of(ACCOUNT),
        position,
        stream_id: event.subject().stream_id(),
        version: position,
        account_id: ACCOUNT,
        event_id: EventId::from_uuid(Uuid::from_u128(position.try_into().unwrap())),
        event_type: event.event_type().to_owned(),
        schema_version: event.schema_version(),
        payload: event.to_payload(),
        metadata: Metadata::default(),
        recorded_at: OffsetDateTime::UNIX_EPOCH,
    });
    recorded.collect()
}

fn cursor(until: Option<Position>) -> Cursor {
    Cursor {
        shard: Shard::of(ACCOUNT),
        is_replay: until.is_some(),
        place: FeedPlace::BEGINNING,
        until,
    }
}

fn page(events: Vec<RecordedEvent>, has_more: bool, webhook: &Webhook) -> Page {
    Page::of(EventsRead { events, has_more }, &cursor(None), webhook)
}

fn place_after(page: &Page, finished: usize) -> FeedPlace {
    page.place_after(finished).place
}

fn positions(page: &Page) -> Vec<Position> {
    page.messages.iter().map(|it| it.position).collect()
}

#[test]
fn created_link_is_one_message_with_its_charge() {
    let webhook = webhook(&[], false);
    let page = page(log(&[created(), charged(), suspended()]), false, &webhook);
    assert_eq!(positions(&page), [1, 3]);
    assert!(page.messages[0].body.contains(r#""charge":{"#));
    assert_eq!(place_after(&page, 0), FeedPlace::BEGINNING);
    // After the charge, which is of the account's stream.
    let place = FeedPlace {
        position: 2,
        version: 2,
    };
    assert_eq!(place_after(&page, 1), place);
    assert_eq!(place_after(&page, 2).position, 3);
    // Each place has the event that it is after.
    let event_ids = [0, 1, 2].map(|finished| page.place_after(finished).event_id);
    let id = |number| Some(EventId::from_uuid(Uuid::from_u128(number)));
    assert_eq!(event_ids, [None, id(2), id(3)]);
}

#[test]
fn charge_that_crosses_a_threshold_is_a_message_of_its_own() {
    let events = [created(), charged_below(Some(1)), suspended()];
    let all = page(log(&events), false, &webhook(&[], false));
    assert_eq!(positions(&all), [1, 2, 3]);
    assert_eq!(all.messages[0].kind, MessageType::LinkCreated);
    assert!(all.messages[0].body.contains(r#""charge":{"#));
    assert_eq!(all.messages[1].kind, MessageType::CreditsLow);
    assert_eq!(all.messages[1].event_id, log(&events)[1].event_id);
    assert!(all.messages[1].body.contains(r#""low_balance":1"#));
    // The place before the charge is after the created link.
    let place = FeedPlace {
        position: 1,
        version: 0,
    };
    assert_eq!(all.place_after(1).place, place);
    assert_eq!(all.place_after(2).place.position, 2);
    let low = webhook(&[MessageType::CreditsLow], false);
    assert_eq!(positions(&page(log(&events), false, &low)), [2]);
    // A page that begins with the charge, after its link.
    let rest = log(&events).split_off(1);
    let rest = page(rest, false, &webhook(&[], false));
    assert_eq!(positions(&rest), [2, 3]);
    assert_eq!(rest.messages[0].body, all.messages[1].body);
}

#[test]
fn page_never_ends_between_a_link_and_its_charge() {
    let webhook = webhook(&[], false);
    let cut = page(log(&[suspended(), created()]), true, &webhook);
    assert_eq!((positions(&cut), cut.has_more), (vec![1], true));
    // The reader may stop before an unreadable event, and not know of more.
    let stopped = page(log(&[suspended(), created()]), false, &webhook);
    assert_eq!((positions(&stopped), stopped.has_more), (vec![1], true));
    assert_eq!(place_after(&cut, 1).position, 1);
    // The reader could not read the charge.
    let alone = page(log(&[created()]), true, &webhook);
    assert!(alone.unreadable.is_some() && !alone.has_more);
    assert_eq!(place_after(&alone, 0), FeedPlace::BEGINNING);
}

#[test]
fn unwanted_events_move_the_cursor() {
    let webhook = webhook(&[MessageType::AccountSuspended], false);
    let events = [created(), charged(), suspended(), granted(ACCOUNT, 1, 1)];
    let page = page(log(&events), false, &webhook);
    assert_eq!(positions(&page), [3]);
    assert_eq!(place_after(&page, 0).position, 2);
    assert_eq!(place_after(&page, 1).position, 4);
}

#[test]
fn place_among_all_accounts_has_no_version() {
    let webhook = webhook(&[], true);
    let page = page(log(&[suspended(), suspended()]), false, &webhook);
    let place = FeedPlace {
        position: 2,
        version: 0,
    };
    assert_eq!(place_after(&page, 2), place);
}

#[test]
fn cursor_stands_before_an_unreadable_event() {
    let mut events = log(&[suspended(), suspended(), suspended()]);
    events[1].event_type = "LinkTeleported".to_owned();
    let page = page(events, true, &webhook(&[], false));
    assert_eq!(positions(&page), [1]);
    assert_eq!((place_after(&page, 1).position, page.has_more), (1, false));
    assert!(page.unreadable.unwrap().contains("position 2"));
}

#[test]
fn replay_ends_at_its_last_position() {
    let webhook = webhook(&[], false);
    for (until, sent) in [(1, vec![1]), (2, vec![1, 2]), (9, vec![1, 2, 3])] {
        let events = log(&[suspended(), suspended(), suspended()]);
        let read = EventsRead {
            events,
            has_more: false,
        };
        let cursor = cursor(Some(until));
        let page = Page::of(read, &cursor, &webhook);
        assert_eq!(positions(&page), sent);
        assert!(page.ends(&cursor, sent.len()));
        assert!(!page.ends(&cursor, sent.len() - 1));
    }
    let live = page(Vec::new(), false, &webhook);
    assert!(!live.ends(&cursor(None), 0));
}

#[test]
fn window_and_allowance_bound_what_is_handed_out() {
    let mut progress = PageProgress::new(5, 2, 4);
    let hand_out = |progress: &mut PageProgress| progress.hand_out(|_| 1);
    assert_eq!(hand_out(&mut progress), Some(0..1));
    assert_eq!(hand_out(&mut progress), Some(1..2));
    assert_eq!(hand_out(&mut progress), None);
    progress.finish(1..2);
    assert_eq!(progress.finished_prefix(), 0);
    assert_eq!(hand_out(&mut progress), Some(2..3));
    progress.finish(0..1);
    assert_eq!(progress.finished_prefix(), 2);
    assert_eq!(hand_out(&mut progress), Some(3..4));
    progress.finish(2..3);
    // The allowance is used up.
    assert_eq!(hand_out(&mut progress), None);
    assert_eq!(progress.finished_prefix(), 3);
}

#[test]
fn request_with_several_is_in_flight_alone() {
    let mut progress = PageProgress::new(5, 1, 5);
    assert_eq!(progress.hand_out(|_| 3), Some(0..3));
    assert_eq!(progress.hand_out(|_| 3), None);
    // Refused: the next requests have one each.
    progress.take_back(0..3);
    for items in [0..1, 1..2, 2..3] {
        assert_eq!(progress.hand_out(|_| 1), Some(items.clone()));
        progress.finish(items);
    }
    assert_eq!(progress.hand_out(|first| 5 - first), Some(3..5));
    progress.give_up(3..5);
    assert_eq!(progress.hand_out(|_| 1), None);
    assert_eq!(progress.finished_prefix(), 3);
    // A probe has one.
    let mut progress = PageProgress::new(5, 1, 1);
    assert_eq!(progress.hand_out(|_| 3), Some(0..1));
}

#[test]
fn request_has_as_many_messages_as_fit() {
    let mut page = page(log(&vec![suspended(); 120]), false, &webhook(&[], false));
    assert_eq!(page.items_from(0, ITEMS_MAX), 100);
    assert_eq!(page.items_from(30, ITEMS_MAX), 90);
    assert_eq!(page.items_from(30, 1), 1);
    for message in &mut page.messages {
        message.body = format!(r#"{{"data":"{}"}}"#, "x".repeat(9_900));
    }
    assert_eq!(page.items_from(0, ITEMS_MAX), 20);
    let body = body_of(&page.messages[..20], true).into_owned();
    assert!(body.len() <= REQUEST_BYTES_MAX, "{}", body.len());
    // A larger one is sent alone.
    page.messages[1].body = "x".repeat(300_000);
    assert_eq!(
        [0, 1].map(|first| page.items_from(first, ITEMS_MAX)),
        [1, 1]
    );
}

#[test]
fn request_with_several_has_an_id_of_its_own() {
    let page = page(log(&vec![suspended(); 3]), false, &webhook(&[], true));
    let [first, second, third] = [0, 1, 2].map(|nth| page.messages[nth].event_id.to_string());
    assert_eq!(request_id(&page.messages[1..2]), second);
    assert_eq!(
        request_id(&page.messages[..2]),
        format!("{first}:{second}:2")
    );
    assert_eq!(request_id(&page.messages), format!("{first}:{third}:3"));
}

#[test]
fn failures_halve_and_successes_double_what_a_receiver_bears() {
    let halved = [100, 3, 2].map(borne_after_illness);
    assert_eq!(halved, [50, 1, 1]);
    let doubled = [1, 50, 51, 100].map(borne_after_success);
    assert_eq!(doubled, [2, 100, 100, 100]);
}

#[test]
fn body_of_a_request_in_order_is_a_list() {
    let page = page(
        log(&[suspended(), suspended()]),
        false,
        &webhook(&[], false),
    );
    let alone = &page.messages[..1];
    assert_eq!(body_of(alone, false), alone[0].body);
    for messages in [alone, &page.messages[..]] {
        let body: serde_json::Value = serde_json::from_str(&body_of(messages, true)).unwrap();
        assert_eq!(body["type"], "events");
        let items = body["data"]["items"].as_array().unwrap();
        assert_eq!(items.len(), messages.len());
        for (item, message) in items.iter().zip(messages) {
            assert_eq!(item["id"], message.event_id.to_string());
            assert_eq!(item["type"], message.kind.name());
        }
    }
}

proptest! {
    #[test]
    fn cursor_moves_over_finished_messages_only(
        steps in prop::collection::vec((0..8_usize, any::<bool>()), 0..40),
        window in 1..5_usize,
    ) {
        let (count, mut in_flight, mut finished) = (8, Vec::new(), vec![false; 8]);
        let mut progress = PageProgress::new(count, window, count);
        for (choice, is_given_up) in steps {
            in_flight.extend(progress.hand_out(|_| 1));
            prop_assert!(in_flight.len() <= window);
            if in_flight.is_empty() {
                break;
            }
            let items = in_flight.swap_remove(choice % in_flight.len());
            if is_given_up {
                progress.give_up(items);
                prop_assert_eq!(progress.hand_out(|_| 1), None);
            } else {
                finished[items.clone()].fill(true);
                progress.finish(items);
            }
            let prefix = finished.iter().take_while(|it| **it).count();
            prop_assert_eq!(progress.finished_prefix(), prefix);
        }
    }
}
