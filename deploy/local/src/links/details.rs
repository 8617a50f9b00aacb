//! Details of a link as options of `linkledger links create` and `links update`.

use clap::Args;
use linkledger_core::link::members::{EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, TAGS, TITLE};
use serde_json::{Map, Value};

/// Details of a link; the service checks their values.
#[derive(Debug, Default, Args)]
pub(super) struct DetailOptions {
    /// Title for people.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Tag; repeat the option for several tags.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Id of the link in your system; unique among the links of the account.
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    /// Instant from which the link no longer leads to its destination, as 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "INSTANT")]
    expires_at: Option<String>,
    /// Destination after the expiry; without it, visitors then receive 410.
    #[arg(long, value_name = "URL")]
    expired_url: Option<String>,
}

impl DetailOptions {
    /// Adds the given details to the body of a create.
    pub(super) fn add_to(&self, body: &mut Map<String, Value>) {
        for (name, value) in self.texts() {
            body.insert(name.to_owned(), value.into());
        }
        if !self.tags.is_empty() {
            body.insert(TAGS.to_owned(), self.tags.clone().into());
        }
    }

    /// Adds the given details to a merge patch. An empty value removes a detail.
    pub(super) fn patch(&self, body: &mut Map<String, Value>) {
        for (name, value) in self.texts() {
            let value = if value.is_empty() {
                Value::Null
            } else {
                value.into()
            };
            body.insert(name.to_owned(), value);
        }
        if self.tags == [""] {
            body.insert(TAGS.to_owned(), Value::Null);
        } else if !self.tags.is_empty() {
            body.insert(TAGS.to_owned(), self.tags.clone().into());
        }
    }

    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let texts = [
            (TITLE, &self.title),
            (EXTERNAL_ID, &self.external_id),
            (EXPIRES_AT, &self.expires_at),
            (EXPIRED_URL, &self.expired_url),
        ];
        texts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_values_remove_details_of_a_patch() {
        let details = DetailOptions {
            title: Some(String::new()),
            tags: vec![String::new()],
            expires_at: Some("2099-01-01T00:00:00Z".to_owned()),
            ..DetailOptions::default()
        };
        let mut body = Map::new();
        details.patch(&mut body);
        let expected = json!({ "title": null, "tags": null, "expires_at": "2099-01-01T00:00:00Z" });
        assert_eq!(Value::Object(body), expected);
    }
}
