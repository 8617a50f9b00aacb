//! Made-up links with titles and tags: each campaign by each channel in each city.
//!
//! Pure. A link depends on its number only, in every release: another body does not fit its idempotency key.

use serde_json::{Value, json};
use uuid::Uuid;

use super::NAMESPACE;

/// Campaigns with their tags.
const CAMPAIGNS: [(&str, &str); 10] = [
    ("Spring sale", "spring"),
    ("Summer festival", "summer"),
    ("Autumn catalogue", "autumn"),
    ("Winter sale", "winter"),
    ("Product launch", "launch"),
    ("Customer survey", "survey"),
    ("Open day", "open-day"),
    ("Job offers", "jobs"),
    ("Price list", "prices"),
    ("Webinar", "webinar"),
];
/// Channels with their tags.
const CHANNELS: [(&str, &str); 6] = [
    ("newsletter", "newsletter"),
    ("poster", "poster"),
    ("flyer", "flyer"),
    ("social media", "social"),
    ("text message", "sms"),
    ("trade fair", "fair"),
];
/// Cities with their tags; a fifth of the links has no city.
const CITIES: [(&str, &str); 4] = [
    ("Berlin", "berlin"),
    ("Paris", "paris"),
    ("Vienna", "vienna"),
    ("Zurich", "zurich"),
];
const COMBINATIONS: usize = CAMPAIGNS.len() * CHANNELS.len() * (CITIES.len() + 1);
/// Step from link to link, without a common divisor with [`COMBINATIONS`]: the first four links, which have
/// most clicks, differ in all parts.
const STEP: usize = 77;

/// Returns the create of a link with title and tags.
pub(super) fn link(number: usize) -> Value {
    let combination = number * STEP % COMBINATIONS;
    let (rest, campaign) = (combination / CAMPAIGNS.len(), combination % CAMPAIGNS.len());
    let (city, channel) = (rest / CHANNELS.len(), rest % CHANNELS.len());
    let parts = [CAMPAIGNS[campaign], CHANNELS[channel]];
    let parts = parts.iter().chain(CITIES.get(city));
    let (title, tags): (Vec<&str>, Vec<&str>) = parts.copied().unzip();
    let key = Uuid::new_v5(&NAMESPACE, format!("link {number}").as_bytes());
    json!({
        "idempotency_key": key.hyphenated().to_string(),
        "destination_url": format!("https://example.com/made-up/{number}"),
        "title": title.join(", "),
        "tags": tags,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{super::LINKS, *};

    #[test]
    fn links_have_different_titles_and_two_or_three_tags() {
        let links: Vec<Value> = (0..LINKS).map(link).collect();
        let titles: HashSet<&str> = links
            .iter()
            .map(|link| link["title"].as_str().unwrap())
            .collect();
        assert_eq!(titles.len(), LINKS);
        for link in &links {
            let tags = link["tags"].as_array().unwrap();
            assert!((2..=3).contains(&tags.len()), "{link}");
        }
    }

    #[test]
    fn link_is_the_same_in_every_release() {
        let expected = json!({
            "idempotency_key": "9fb7a7b8-1c26-56d4-9acc-4f11d9b9ae79",
            "destination_url": "https://example.com/made-up/1",
            "title": "Job offers, poster, Paris",
            "tags": ["jobs", "poster", "paris"],
        });
        assert_eq!(link(1), expected);
    }
}
