//! The metrics that a service exports.

use std::collections::HashMap;

use crate::http::Http;

/// The samples of a scrape, by name and labels.
pub(crate) struct Scrape(pub(crate) HashMap<String, f64>);

impl Scrape {
    pub(crate) async fn of(http: &Http, url: &str) -> Self {
        let answer = http.follow(url).await;
        assert_eq!(answer.status, 200);
        assert!(
            answer
                .header("content-type")
                .starts_with("text/plain; version=0.0.4")
        );
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().unwrap();
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} says nothing"
            );
        }
        let samples = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        Self(samples.map(sample).collect())
    }

    /// Returns true if there is a sample with this name.
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.0.keys().any(|key| key.split('{').next() == Some(name))
    }

    /// Sums the samples with this name whose labels contain all of `labels`.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let matches = |key: &str| {
            key.split('{').next() == Some(name) && labels.iter().all(|label| key.contains(label))
        };
        self.0
            .iter()
            .filter(|(key, _)| matches(key))
            .map(|(_, value)| value)
            .sum()
    }

    /// Counts the series with this name and this label.
    pub(crate) fn count(&self, name: &str, label: &str) -> usize {
        let matches = |key: &&String| key.split('{').next() == Some(name) && key.contains(label);
        self.0.keys().filter(matches).count()
    }
}
