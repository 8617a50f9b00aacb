//! Tests of the outbox against its bounds, and of its order.

use linkledger_clicks::{ClickDetails, ClickKind};
use linkledger_core::id::AccountId;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::clicks::merged::instant_of;

fn click(link: u128) -> Click {
    Click {
        link_id: LinkId::from_uuid(Uuid::from_u128(link)),
        account_id: AccountId::from_uuid(Uuid::nil()),
        slug: "spring".to_owned(),
        clicked_at: instant_of(1_000),
        kind: ClickKind::Human,
        count: 1,
        details: ClickDetails::default(),
    }
}

/// Sends and acknowledges the records of a partition, and returns their sequences.
fn deliver(outbox: &mut Outbox, number: u8) -> Vec<u64> {
    let now = Instant::now();
    let mut sequences = Vec::new();
    while let Some((sequence, _)) = outbox.next_to_send(number, now) {
        outbox.mark_sent(number);
        outbox.acknowledge(number, sequence, now);
        sequences.push(sequence);
    }
    sequences
}

#[test]
fn first_record_of_producer_is_sent_alone() {
    let mut outbox = Outbox::new(1 << 20);
    let number = click_partition(click(1).link_id);
    for _ in 0..5 {
        assert_eq!(outbox.add(&click(1)), Added::Queued);
    }
    let now = Instant::now();
    assert_eq!(outbox.next_to_send(number, now).unwrap().0, 1);
    outbox.mark_sent(number);
    assert!(outbox.next_to_send(number, now).is_none());
    outbox.acknowledge(number, 1, now);
    for sequence in 2..=5 {
        assert_eq!(outbox.next_to_send(number, now).unwrap().0, sequence);
        outbox.mark_sent(number);
    }
    // After a fatal error the first unacknowledged record is the first again.
    outbox.acknowledge(number, 2, now);
    outbox.forget_producer();
    assert_eq!(deliver(&mut outbox, number), [3, 4, 5]);
    assert!(outbox.is_empty());
    assert_eq!(outbox.last_sequences()[usize::from(number)], 5);
}

#[test]
fn in_flight_records_are_bounded() {
    let mut outbox = Outbox::new(64 << 20);
    let number = click_partition(click(1).link_id);
    for _ in 0..IN_FLIGHT_MAX + 10 {
        outbox.add(&click(1));
    }
    let now = Instant::now();
    outbox.mark_sent(number);
    outbox.acknowledge(number, 1, now);
    let mut sent = 0;
    while outbox.next_to_send(number, now).is_some() {
        outbox.mark_sent(number);
        sent += 1;
    }
    assert_eq!(sent, IN_FLIGHT_MAX);
}

#[test]
fn refused_record_is_dropped_alone() {
    let mut outbox = Outbox::new(1 << 20);
    let number = click_partition(click(1).link_id);
    for _ in 0..4 {
        outbox.add(&click(1));
    }
    let now = Instant::now();
    outbox.mark_sent(number);
    outbox.acknowledge(number, 1, now);
    outbox.mark_sent(number);
    outbox.mark_sent(number);
    assert_eq!(outbox.refuse(number, 2), None);
    assert_eq!(outbox.refuse(number, 3), None);
    outbox.forget_producer();
    assert_eq!(outbox.next_to_send(number, now).unwrap().0, 2);
    outbox.mark_sent(number);
    assert!(outbox.next_to_send(number, now).is_none());
    assert_eq!(outbox.refuse(number, 2), Some(1));
    outbox.forget_producer();
    assert_eq!(deliver(&mut outbox, number), [3, 4]);
}

/// Fills partitions up to the bound without a delivery, one after the other. Another partition still gets
/// sequences for its clicks, also after it has merged some.
fn others_are_published_beside_stuck_partitions(stuck: u8) {
    let mut outbox = Outbox::new(64 << 10);
    let of_partition = |number: u8| {
        let mut links = (1..10_000).map(click);
        links.find(|click| click_partition(click.link_id) == number)
    };
    for number in 0..stuck {
        let click = of_partition(number).unwrap();
        while outbox.add(&click) == Added::Queued {}
    }
    let other = of_partition(stuck).unwrap();
    while outbox.add(&other) == Added::Queued {}
    while !outbox.partitions[usize::from(stuck)].merged.is_empty() {
        assert!(!deliver(&mut outbox, stuck).is_empty(), "nothing is sent");
        outbox.queue_merged();
    }
    deliver(&mut outbox, stuck);
    for _ in 0..100 {
        assert_eq!(outbox.add(&other), Added::Queued);
        deliver(&mut outbox, stuck);
    }
}

#[test]
fn stuck_partitions_leave_room_for_others() {
    for stuck in 1..8 {
        others_are_published_beside_stuck_partitions(stuck);
    }
}

#[test]
fn flood_of_one_account_leaves_others_their_details() {
    let mut outbox = Outbox::new(64 << 10);
    let flood = click(1);
    let number = click_partition(flood.link_id);
    while outbox.add(&flood) == Added::Queued {}
    let mut links = (2..10_000).map(click);
    let other = links.find(|click| click_partition(click.link_id) == number);
    let other = Click {
        account_id: AccountId::from_uuid(Uuid::from_u128(2)),
        ..other.unwrap()
    };
    for _ in 0..5 {
        assert_eq!(outbox.add(&other), Added::Queued);
        assert_eq!(outbox.add(&flood), Added::Merged);
    }
    // Once the merged clicks have left, the account has its share again.
    deliver(&mut outbox, number);
    outbox.queue_merged();
    assert_eq!(outbox.add(&flood), Added::Queued);
    deliver(&mut outbox, number);
    assert!(outbox.is_empty());
    assert!(outbox.partitions[usize::from(number)].accounts.is_empty());
}

proptest! {
    #[test]
    fn clicks_leave_in_order_or_are_counted_as_lost(
        steps in prop::collection::vec((0..40_u128, any::<bool>()), 1..1_500),
        bytes_max in 2_000..40_000_usize,
    ) {
        let mut outbox = Outbox::new(bytes_max);
        let (mut added, mut lost, mut delivered) = (0_u64, 0, 0_u64);
        let mut last = PerPartition::<u64>::default();
        let mut expect_order = |outbox: &mut Outbox, number: u8| {
            let before = outbox.click_count();
            for sequence in deliver(outbox, number) {
                assert_eq!(sequence, last[usize::from(number)] + 1);
                last[usize::from(number)] = sequence;
            }
            before - outbox.click_count()
        };
        for (link, delivers) in steps {
            let click = click(link);
            added += 1;
            lost += u64::from(outbox.add(&click) == Added::Lost);
            prop_assert!(outbox.bytes + outbox.merged_bytes() <= 2 * bytes_max);
            if delivers && link % 8 == 0 {
                delivered += expect_order(&mut outbox, click_partition(click.link_id));
                outbox.queue_merged();
            }
            prop_assert_eq!(added, lost + delivered + outbox.click_count());
        }
        while !outbox.is_empty() {
            outbox.queue_merged();
            for number in 0..CLICK_PARTITIONS {
                delivered += expect_order(&mut outbox, number);
            }
        }
        prop_assert_eq!(added, lost + delivered);
    }
}
