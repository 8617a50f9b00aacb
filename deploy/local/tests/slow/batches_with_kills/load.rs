//! The creates, and the random groupings in which they are sent.

use linkledger_testing::{Random, record};
use serde_json::{Value, json};

/// Number of creates that are sent alone and in partial batches.
pub(super) const CREATES: usize = 280;
/// Number of atomic batches. Their keys occur in no other request.
pub(super) const ATOMIC_BATCHES: usize = 40;
pub(super) const ATOMIC_ITEMS: usize = 3;
/// Every atomic batch of this interval has an item with a slug that is taken.
const REFUSED_INTERVAL: usize = 5;
const TAKEN_SLUG: &str = "taken";
pub(super) const GROUPINGS: usize = 1_000;
const ITEMS_MAX: usize = 100;
pub(super) const SEED: u64 = 20_261_126;

/// One create, the same in every request.
pub(super) struct Create {
    pub(super) key: String,
    pub(super) body: Value,
}

impl Create {
    /// Returns a create; some have a slug, and some have tags.
    fn new(number: usize) -> Self {
        let mut body = json!({ "destination_url": format!("https://example.com/{number}") });
        if number.is_multiple_of(3) {
            body["slug"] = format!("Batch-{number}").into();
        }
        if number.is_multiple_of(4) {
            body["tags"] = json!(["kills", format!("tag-{}", number % 7)]);
        }
        let key = format!("00000000-0000-4000-8000-{number:012}");
        record::create(&key, &body);
        Self { key, body }
    }

    /// Returns the create that takes the slug of the refused batches.
    pub(super) fn of_taken_slug() -> Self {
        Self::new(CREATES + ATOMIC_BATCHES * ATOMIC_ITEMS).with_slug(TAKEN_SLUG)
    }

    fn with_slug(mut self, slug: &str) -> Self {
        self.body["slug"] = slug.into();
        self
    }
}

pub(super) enum Grouping<'a> {
    Single(&'a Create),
    Partial(Vec<&'a Create>),
    Atomic(&'a [Create]),
}

pub(super) struct Load {
    pub(super) creates: Vec<Create>,
    pub(super) atomic: Vec<Vec<Create>>,
}

impl Load {
    pub(super) fn new() -> Self {
        let batch = |nth: usize| {
            let first = CREATES + nth * ATOMIC_ITEMS;
            let mut batch: Vec<_> = (first..first + ATOMIC_ITEMS).map(Create::new).collect();
            if nth.is_multiple_of(REFUSED_INTERVAL) {
                let last = batch.pop().unwrap();
                batch.push(last.with_slug(TAKEN_SLUG));
            }
            batch
        };
        Self {
            creates: (0..CREATES).map(Create::new).collect(),
            atomic: (0..ATOMIC_BATCHES).map(batch).collect(),
        }
    }

    /// Returns the random grouping with this number, the same in every run. Later groupings contain
    /// later creates, so that until the last kill some creates are sent for the first time.
    pub(super) fn grouping(&self, number: usize) -> Grouping<'_> {
        let mut random = Random::new(SEED + u64::try_from(number).unwrap());
        let known = |count: usize| 1 + number * count / GROUPINGS;
        match random.below(8) {
            0 => Grouping::Single(&self.creates[random.below(known(CREATES))]),
            1 => Grouping::Atomic(&self.atomic[random.below(known(ATOMIC_BATCHES))]),
            _ => {
                let known = &self.creates[..known(CREATES)];
                let mut items: Vec<_> = known[random.below(known.len())..].iter().collect();
                random.shuffle(&mut items);
                items.truncate(1 + random.below(ITEMS_MAX));
                Grouping::Partial(items)
            }
        }
    }

    /// Returns groupings that contain everything.
    pub(super) fn everything(&self) -> impl Iterator<Item = Grouping<'_>> {
        let chunks = self.creates.chunks(ITEMS_MAX);
        let partial = chunks.map(|chunk| Grouping::Partial(chunk.iter().collect()));
        partial.chain(self.atomic.iter().map(|batch| Grouping::Atomic(batch)))
    }
}

/// Returns true if the service has to refuse the atomic batch.
pub(super) fn is_refused(batch: &[Create]) -> bool {
    batch.iter().any(|create| create.body["slug"] == TAKEN_SLUG)
}
