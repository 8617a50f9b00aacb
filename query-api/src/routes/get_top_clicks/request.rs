//! Requests for the most frequent values or links: parameters, defaults and limits.

use std::ops::Range;

use axum::http::{HeaderMap, Uri};
use linkledger_core::{
    click::{Dimension, buckets::RangeError, top::DayRequest},
    http::request::MediaType,
    id::AccountId,
    problem::Problem,
};
use time::{Date, OffsetDateTime};
use utoipa::{IntoParams, ToSchema};

use crate::{
    consistency::position_of_consistency_token,
    paging::{LIMIT, parse_limit},
    parameters::{Parameters, parse_name},
    read_model::LogPosition,
    routes::{
        ApiState,
        click_range::{FROM, TO, media_type, range_problem, take_edge},
    },
};

const BY: &str = "by";
const LIMIT_DEFAULT: u8 = 10;
/// Value of `by` that asks for links.
const BY_LINK: &str = "link";

/// Parameters in the OpenAPI document, beside `by`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct TopParameters {
    /// Most items in the answer.
    #[param(minimum = 1, maximum = 100, default = 10)]
    limit: Option<u8>,
    /// Begin of the range, as an instant or a date. Snaps to the begin of its UTC day. Values are kept for 396
    /// days. Default: the last 30 days, the day of `to` included.
    #[param(format = "instant-or-date")]
    from: Option<String>,
    /// End of the range, exclusive, as an instant or a date. Snaps to the end of its UTC day. Default: now.
    #[param(format = "instant-or-date")]
    to: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ByDimension {
    /// Property of the clicks.
    #[param(inline)]
    by: Option<DimensionName>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ByDimensionOrLink {
    /// Property of the clicks, or the links themselves.
    #[param(inline)]
    by: Option<DimensionOrLinkName>,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case", default = "country")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum DimensionName {
    Country,
    ReferrerHost,
    Browser,
    Os,
    Device,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case", default = "country")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum DimensionOrLinkName {
    Country,
    ReferrerHost,
    Browser,
    Os,
    Device,
    Link,
}

/// Value of `by`, the subject of a ranking.
pub(super) trait RankedBy: Copy {
    /// Subject of a request without `by`.
    const DEFAULT: Self;

    /// Returns all names.
    fn names() -> Vec<&'static str>;

    /// Returns the subject with this name.
    fn of_name(name: &str) -> Option<Self>;

    /// Returns the UTC days of the range, as far back as figures of the subject are kept.
    fn days(self, range: DayRequest, now: OffsetDateTime) -> Result<Range<Date>, RangeError>;
}

impl RankedBy for Dimension {
    const DEFAULT: Self = Self::Country;

    fn names() -> Vec<&'static str> {
        Self::ALL.map(Self::name).to_vec()
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::of_name(name)
    }

    fn days(self, range: DayRequest, now: OffsetDateTime) -> Result<Range<Date>, RangeError> {
        range.days_of_values(now)
    }
}

/// Subject of a ranking of an account.
#[derive(Debug, Clone, Copy)]
pub(super) enum DimensionOrLink {
    Dimension(Dimension),
    Link,
}

impl RankedBy for DimensionOrLink {
    const DEFAULT: Self = Self::Dimension(Dimension::DEFAULT);

    fn names() -> Vec<&'static str> {
        let mut names = Dimension::names();
        names.push(BY_LINK);
        names
    }

    fn of_name(name: &str) -> Option<Self> {
        match name {
            BY_LINK => Some(Self::Link),
            _ => Dimension::of_name(name).map(Self::Dimension),
        }
    }

    fn days(self, range: DayRequest, now: OffsetDateTime) -> Result<Range<Date>, RangeError> {
        match self {
            Self::Dimension(dimension) => dimension.days(range, now),
            Self::Link => range.days(now),
        }
    }
}

/// Parts of a request for a ranking.
pub(super) struct TopRequest<B> {
    pub(super) by: B,
    pub(super) limit: u8,
    pub(super) days: Range<Date>,
    pub(super) media_type: MediaType,
    pub(super) position: LogPosition,
}

impl<B: RankedBy> TopRequest<B> {
    /// Parses the request, in the order of checks of `docs/api.md#order-of-checks`.
    pub(super) fn parse(
        api: &ApiState,
        account_id: AccountId,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let mut parameters = Parameters::of(uri, &[BY, LIMIT, FROM, TO]);
        let by = parameters.take(BY, |text| parse_name(text, B::of_name, &B::names()));
        let limit = parameters.take(LIMIT, parse_limit);
        let range = DayRequest {
            from: take_edge(&mut parameters, FROM),
            to: take_edge(&mut parameters, TO),
        };
        parameters.check()?;
        let by = by.unwrap_or(B::DEFAULT);
        let days = by.days(range, api.clock.now());
        let log_epoch = api.watcher.log_epoch();
        Ok(Self {
            by,
            limit: limit.unwrap_or(LIMIT_DEFAULT),
            days: days.map_err(|error| range_problem(&error))?,
            media_type: media_type(headers)?,
            position: position_of_consistency_token(headers, account_id, log_epoch)?,
        })
    }
}
