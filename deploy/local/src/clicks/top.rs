//! The most frequent values and the most clicked links, as a chart. No I/O.

use serde::Deserialize;

use super::{
    NEWER,
    chart::{Chart, ChartRow},
    completeness,
};

/// Label of the clicks without a value.
const NO_VALUE: &str = "(none)";

/// Ranking as the API returns it.
#[derive(Deserialize)]
pub(super) struct TopDocument<T> {
    items: Vec<T>,
    other: u64,
    complete_until: String,
}

#[derive(Deserialize)]
pub(super) struct TopValue {
    value: Option<String>,
    clicks: u64,
    visitors: u64,
}

#[derive(Deserialize)]
pub(super) struct TopLink {
    link_id: String,
    short_url: Option<String>,
    clicks: u64,
    visitors: u64,
}

/// Formats the most frequent values.
pub(super) fn values(document: &TopDocument<TopValue>, title: &str, width: usize) -> String {
    let rows = document.items.iter().map(|item| ChartRow {
        label: item.value.clone().unwrap_or_else(|| NO_VALUE.to_owned()),
        numbers: vec![Some(item.clicks), Some(item.visitors)],
    });
    document.text(title, rows.collect(), width)
}

/// Formats the most clicked links. A deleted link has no address, and is shown by its id.
pub(super) fn links(document: &TopDocument<TopLink>, title: &str, width: usize) -> String {
    let rows = document.items.iter().map(|item| ChartRow {
        label: match &item.short_url {
            Some(short_url) => short_url.clone(),
            None => format!("{} (deleted)", item.link_id),
        },
        numbers: vec![Some(item.clicks), Some(item.visitors)],
    });
    document.text(title, rows.collect(), width)
}

impl<T> TopDocument<T> {
    fn text(&self, title: &str, rows: Vec<ChartRow>, width: usize) -> String {
        let completeness = completeness(&self.complete_until);
        if rows.is_empty() && self.other == 0 {
            return format!(
                "No clicks of people in this range; bots are left out, and shown without --by. {NEWER}\n\
                 {completeness}\n"
            );
        }
        let sum = |label: &str, clicks| ChartRow {
            label: label.to_owned(),
            numbers: vec![Some(clicks), None],
        };
        let listed = rows.iter().filter_map(|row| row.numbers[0]);
        let total = listed.fold(self.other, u64::saturating_add);
        let other = Some(sum("Other", self.other)).filter(|_| self.other > 0);
        let chart = Chart {
            titles: &[title, "CLICKS", "VISITORS"],
            rows,
            sums: other.into_iter().chain([sum("Total", total)]).collect(),
        };
        format!("{}{completeness}\n", chart.text(width))
    }
}
