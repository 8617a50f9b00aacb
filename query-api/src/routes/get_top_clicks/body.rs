//! Answers with the most frequent values or links.

use linkledger_core::{
    click::{
        dimension::NO_VALUE,
        value_figures::{Top, TopItem},
    },
    id::LinkId,
    timestamp,
};
use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema, schema::AnyOfBuilder},
};

use crate::{
    figure_reads::CompleteFigures, read_model::links::LinkView, routes::clicks_csv::CsvRow,
};

/// Values or links with the most human clicks.
#[derive(Serialize, ToSchema)]
pub(super) struct TopItems<T> {
    /// Most clicks first; with equal numbers in the order of the values or ids.
    #[schema(max_items = 100)]
    pub(super) items: Vec<T>,
    /// Clicks of people beyond these items: beyond the limit, or beyond the 100 values that are kept for each link
    /// and day.
    other: u64,
    /// Every click before this instant is in the figures, except clicks that were lost.
    #[schema(format = "date-time")]
    complete_until: String,
}

/// Value with its clicks.
#[derive(Serialize, ToSchema)]
pub(super) struct TopValue {
    /// Null for clicks without a value.
    #[schema(required)]
    value: Option<String>,
    /// Clicks of people.
    clicks: u64,
    /// Estimated distinct visitors of each UTC day, added over days.
    visitors: u64,
}

/// Link with its clicks.
#[derive(Serialize, ToSchema)]
pub(super) struct TopLink {
    #[schema(inline)]
    link_id: LinkId,
    /// Null for a deleted link.
    #[schema(required, format = "uri")]
    short_url: Option<String>,
    /// Null for a deleted link.
    #[schema(required, format = "uri")]
    destination_url: Option<String>,
    /// Clicks of people.
    clicks: u64,
    /// Estimated distinct visitors of each UTC day, added over days.
    visitors: u64,
}

/// Answer of the account's route: values, or links with `by=link`.
pub(super) struct TopValuesOrLinks;

impl ToSchema for TopValuesOrLinks {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.extend([
            (TopValue::name().into_owned(), TopValue::schema()),
            (TopLink::name().into_owned(), TopLink::schema()),
        ]);
    }
}

impl PartialSchema for TopValuesOrLinks {
    fn schema() -> RefOr<Schema> {
        // Not `oneOf`: an answer without items is both.
        let either = AnyOfBuilder::new()
            .item(TopItems::<TopValue>::schema())
            .item(TopItems::<TopLink>::schema());
        RefOr::T(either.build().into())
    }
}

impl CsvRow for TopValue {
    const COLUMNS: &'static [&'static str] = &["value", "clicks", "visitors"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.value.clone().unwrap_or_default(),
            self.clicks.to_string(),
            self.visitors.to_string(),
        ]
    }
}

impl CsvRow for TopLink {
    const COLUMNS: &'static [&'static str] = &[
        "link_id",
        "short_url",
        "destination_url",
        "clicks",
        "visitors",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.link_id.to_string(),
            self.short_url.clone().unwrap_or_default(),
            self.destination_url.clone().unwrap_or_default(),
            self.clicks.to_string(),
            self.visitors.to_string(),
        ]
    }
}

impl TopItems<TopLink> {
    /// Joins the links to their addresses. A deleted link has no address.
    pub(super) fn of_links(
        read: CompleteFigures<Top<LinkId>>,
        links: Vec<Option<LinkView>>,
        short_base_url: &str,
    ) -> Self {
        let of_item = |(item, link): (TopItem<LinkId>, Option<LinkView>)| {
            let link = link.map(|link| link.parts);
            TopLink {
                link_id: item.key,
                short_url: link
                    .as_ref()
                    .map(|link| format!("{short_base_url}/{}", link.slug)),
                destination_url: link.map(|link| link.destination_url),
                clicks: item.clicks,
                visitors: item.visitors,
            }
        };
        let items = read.figures.items.into_iter().zip(links);
        Self {
            items: items.map(of_item).collect(),
            other: read.figures.other,
            complete_until: timestamp::format(read.complete_until),
        }
    }
}

impl TopItems<TopValue> {
    pub(super) fn of_values(read: CompleteFigures<Top<String>>) -> Self {
        let items = read.figures.items.into_iter().map(|item| TopValue {
            value: Some(item.key).filter(|value| value != NO_VALUE),
            clicks: item.clicks,
            visitors: item.visitors,
        });
        Self {
            items: items.collect(),
            other: read.figures.other,
            complete_until: timestamp::format(read.complete_until),
        }
    }
}
