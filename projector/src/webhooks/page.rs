//! A page of a cursor: the wanted messages about a few events, and which of them are sent. No I/O.
//!
//! A cursor says that everything before it is finished. So it moves over finished messages without a gap only, and a
//! message that was accepted after one that is not finished may be sent again.

use std::{borrow::Cow, ops::Range};

use linkledger_core::{
    envelope::RecordedEvent,
    event::{DecodeError, message_data},
    id::EventId,
    shard::{Position, Shard},
    webhook::{Audience, MessageType, OrderedItem, Webhook, message_body, ordered_body},
};
use linkledger_event_store::{log::feed::FeedPlace, webhooks::cursors::Cursor};
use time::OffsetDateTime;

/// Maximum number of events of a page, hence of messages in memory for a webhook. At least two: a created link and its
/// charge are one message.
const EVENTS_MAX: usize = 32;
/// The same for a webhook of operators, which must keep up with all accounts.
const EVENTS_MAX_OF_OPERATORS: usize = 128;
/// The same for a webhook that gets its messages in order, several a request.
const EVENTS_MAX_IN_ORDER: usize = ITEMS_MAX;
/// Maximum number of messages of a request.
pub(super) const ITEMS_MAX: usize = 100;
/// Maximum number of bytes of a request with several messages.
const REQUEST_BYTES_MAX: usize = 200_000;
/// Bytes of a request with several messages besides these; at most.
const ENVELOPE_BYTES: usize = 100;
/// Bytes of a message in such a request besides its own body: its id; at most.
const ID_BYTES: usize = 50;
/// Maximum number of messages of a webhook in flight.
const WINDOW: usize = 8;
/// The same for a webhook of operators.
pub(super) const WINDOW_OF_OPERATORS: usize = 64;

/// Events right after a cursor.
pub(super) struct EventsRead {
    pub(super) events: Vec<RecordedEvent>,
    /// True if there may be further events.
    pub(super) has_more: bool,
}

/// A message about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) event_id: EventId,
    pub(super) kind: MessageType,
    pub(super) shard: Shard,
    pub(super) position: Position,
    pub(super) recorded_at: OffsetDateTime,
    /// Body, as signed and sent.
    pub(super) body: String,
    /// Place right before the message.
    before: PagePlace,
}

/// A place between two events of a page, at its beginning or at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PagePlace {
    pub(super) place: FeedPlace,
    /// Event of the page at the position of the place; `None` at the beginning.
    pub(super) event_id: Option<EventId>,
}

/// The wanted messages about the events right after a cursor.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) messages: Vec<Message>,
    /// Place after the page.
    end: PagePlace,
    /// True if a page right after this one may have messages.
    pub(super) has_more: bool,
    /// Reason why the page ends before an event.
    pub(super) unreadable: Option<String>,
}

/// Returns the maximum number of events of a page.
pub(super) fn events_max(webhook: &Webhook) -> usize {
    match (webhook.in_order, webhook.all_accounts) {
        (true, _) => EVENTS_MAX_IN_ORDER,
        (false, true) => EVENTS_MAX_OF_OPERATORS,
        (false, false) => EVENTS_MAX,
    }
}

/// Returns the maximum number of messages of a request, of which the receiver can bear so many as `borne` tells.
pub(super) fn items_max(webhook: &Webhook, borne: usize) -> usize {
    if webhook.in_order { borne } else { 1 }
}

/// Returns the number of messages that a receiver can perhaps bear that has failed at a request with several.
pub(super) fn borne_after_illness(items: usize) -> usize {
    (items / 2).max(1)
}

/// Returns the number of messages that a receiver can perhaps bear that has accepted a request with so many.
pub(super) fn borne_after_success(items: usize) -> usize {
    (items * 2).min(ITEMS_MAX)
}

/// Returns the id of a request with these messages. Of one it is that of the event. Several have an id of their own:
/// whoever has seen the id of an event has not seen the others, such as after a replay or a change of the types.
pub(super) fn request_id(messages: &[Message]) -> String {
    let [first, .., last] = messages else {
        return messages[0].event_id.to_string();
    };
    let (first, last, count) = (first.event_id, last.event_id, messages.len());
    // No dot: it separates the parts that are signed.
    format!("{first}:{last}:{count}")
}

/// Returns the body of a request with these messages: of a webhook that gets them in order, a list, also of one.
pub(super) fn body_of(messages: &[Message], in_order: bool) -> Cow<'_, str> {
    match messages {
        [message] if !in_order => Cow::Borrowed(message.body.as_str()),
        messages => {
            let items = messages.iter().map(|message| OrderedItem {
                event_id: message.event_id,
                recorded_at: message.recorded_at,
                body: &message.body,
            });
            Cow::Owned(ordered_body(&items.collect::<Vec<_>>()))
        }
    }
}

/// Returns the maximum number of messages in flight; of a webhook that gets them in order, of requests.
pub(super) fn window(webhook: &Webhook) -> usize {
    match (webhook.in_order, webhook.all_accounts) {
        (true, _) => 1,
        (false, true) => WINDOW_OF_OPERATORS,
        (false, false) => WINDOW,
    }
}

/// Returns the readers of the messages of a webhook.
pub(super) fn audience(webhook: &Webhook) -> Audience {
    if webhook.all_accounts {
        Audience::Operator
    } else {
        Audience::Owner
    }
}

/// Returns the message about an event; `None` if there are no messages about events of the type. `charge` is the event
/// that may pay for it, at the next position.
pub(super) fn message_about(
    event: &RecordedEvent,
    charge: Option<&RecordedEvent>,
    audience: Audience,
    before: PagePlace,
) -> Result<Option<Message>, DecodeError> {
    let decoded = event.decode()?;
    let Some(message_type) = decoded.message_type() else {
        return Ok(None);
    };
    let charge = charge.filter(|_| is_creation(event));
    let charge = charge.map(RecordedEvent::decode).transpose()?;
    let data = message_data(&decoded, event.position, charge.as_ref(), audience);
    Ok(Some(Message {
        event_id: event.event_id,
        kind: message_type,
        shard: event.shard,
        position: event.position,
        recorded_at: event.recorded_at,
        body: message_body(message_type, event.recorded_at, &data),
        before,
    }))
}

impl Page {
    /// Returns the page of the messages that the webhook wants. The webhook must have been read after the events: a
    /// message about an event after a change of its types is chosen by the new types.
    pub(super) fn of(read: EventsRead, cursor: &Cursor, webhook: &Webhook) -> Self {
        let EventsRead { events, has_more } = read;
        let mut page = Self {
            messages: Vec::new(),
            end: PagePlace::at(cursor.place),
            has_more,
            unreadable: None,
        };
        let audience = audience(webhook);
        for (index, event) in events.iter().enumerate() {
            if cursor.until.is_some_and(|until| event.position > until) {
                page.has_more = false;
                return page;
            }
            let charge = events.get(index + 1).filter(|it| is_charge_of(it, event));
            // Also at the end of what was read: each created link has a charge.
            let is_cut = charge.is_none() && index + 1 == events.len();
            if is_cut && is_creation(event) {
                page.cut_before_creation(index);
                return page;
            }
            match message_about(event, charge, audience, page.end) {
                Ok(message) => {
                    let wanted = message.filter(|it| webhook.wants(it.kind));
                    page.messages.extend(wanted);
                    page.end = page.end.after(event, audience);
                }
                Err(error) => {
                    page.stop_before(event, &error);
                    return page;
                }
            }
        }
        page
    }

    /// The next page begins with the created link, and has its charge. If the link is alone on its page, the charge
    /// cannot be read.
    fn cut_before_creation(&mut self, index: usize) {
        self.has_more = index > 0;
        if index == 0 {
            self.unreadable = Some("the charge of a created link cannot be read".to_owned());
        }
    }

    fn stop_before(&mut self, event: &RecordedEvent, error: &DecodeError) {
        let (shard, position) = (event.shard, event.position);
        self.unreadable = Some(format!(
            "the event at position {position} of shard {shard} cannot be read: {error}"
        ));
        self.has_more = false;
    }

    /// Returns the number of messages that one request has from this one on: at most `items_max`, and no more than
    /// its size allows, but at least one.
    pub(super) fn items_from(&self, first: usize, items_max: usize) -> usize {
        let mut bytes = ENVELOPE_BYTES;
        let messages = self.messages[first..].iter().take(items_max);
        let fitting = messages.take_while(|message| {
            bytes += message.body.len() + ID_BYTES;
            bytes <= REQUEST_BYTES_MAX
        });
        fitting.count().max(1)
    }

    /// Returns the place to which the cursor moves if the first `finished` messages are finished, and no more.
    pub(super) fn place_after(&self, finished: usize) -> PagePlace {
        let next = self.messages.get(finished);
        next.map_or(self.end, |message| message.before)
    }

    /// Returns true if the cursor is at its end if the first `finished` messages are finished: the end of a replay.
    pub(super) fn ends(&self, cursor: &Cursor, finished: usize) -> bool {
        let is_whole = finished == self.messages.len() && self.unreadable.is_none();
        let is_at_end = cursor
            .until
            .is_some_and(|until| !self.has_more || self.end.place.position >= until);
        is_whole && is_at_end
    }
}

fn is_creation(event: &RecordedEvent) -> bool {
    event.event_type == "LinkCreated"
}

/// Returns true if the event is the charge of a created link.
pub(super) fn is_charge_of(charge: &RecordedEvent, creation: &RecordedEvent) -> bool {
    is_creation(creation)
        && charge.event_type == "CreditsCharged"
        && charge.position == creation.position + 1
}

impl PagePlace {
    /// Returns the place at the beginning of a page.
    pub(super) const fn at(place: FeedPlace) -> Self {
        Self {
            place,
            event_id: None,
        }
    }

    /// Returns the place after an event. A place among the events of all accounts has no version.
    fn after(self, event: &RecordedEvent, audience: Audience) -> Self {
        let place = match audience {
            Audience::Owner => self.place.after(event),
            Audience::Operator => FeedPlace {
                position: event.position,
                version: 0,
            },
        };
        Self {
            place,
            event_id: Some(event.event_id),
        }
    }
}

/// State of a message of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageState {
    Unsent,
    InFlight,
    Finished,
}

/// Progress of the messages of a page.
#[derive(Debug)]
pub(super) struct PageProgress {
    states: Vec<MessageState>,
    /// Number of messages in flight from which on no request is made.
    window: usize,
    /// Number of messages that may still be handed out.
    allowance: usize,
}

impl PageProgress {
    /// Returns the progress of a page of which nothing is sent, and of which at most `allowance` messages will be.
    pub(super) fn new(messages: usize, window: usize, allowance: usize) -> Self {
        Self {
            states: vec![MessageState::Unsent; messages],
            window,
            allowance,
        }
    }

    /// Hands out the next messages, those of one request, if the window has room. `items_from` says how many a request
    /// has from a message on.
    pub(super) fn hand_out(
        &mut self,
        items_from: impl FnOnce(usize) -> usize,
    ) -> Option<Range<usize>> {
        let in_flight = self.states.iter();
        let in_flight = in_flight.filter(|it| **it == MessageState::InFlight);
        if self.allowance == 0 || in_flight.count() >= self.window {
            return None;
        }
        let mut states = self.states.iter();
        let first = states.position(|it| *it == MessageState::Unsent)?;
        let items = items_from(first).min(self.allowance);
        self.states[first..first + items].fill(MessageState::InFlight);
        self.allowance -= items;
        Some(first..first + items)
    }

    /// Records that the messages of a request need no more attempt by the cursor.
    pub(super) fn finish(&mut self, items: Range<usize>) {
        self.states[items].fill(MessageState::Finished);
    }

    /// Takes the messages of a request back: they are the next ones to be handed out.
    pub(super) fn take_back(&mut self, items: Range<usize>) {
        self.allowance += items.len();
        self.states[items].fill(MessageState::Unsent);
    }

    /// Records that the messages of a request must be sent again, and hands out no more messages.
    pub(super) fn give_up(&mut self, items: Range<usize>) {
        self.states[items].fill(MessageState::Unsent);
        self.allowance = 0;
    }

    /// Returns the number of finished messages before the first one that is not.
    pub(super) fn finished_prefix(&self) -> usize {
        let mut states = self.states.iter();
        states
            .position(|it| *it != MessageState::Finished)
            .unwrap_or(self.states.len())
    }
}

#[cfg(test)]
mod tests;
