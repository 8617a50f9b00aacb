//! Pages of a list: the parameters `limit` and `cursor`, and the form of the answer.
//! `docs/api.md#lists` describes both.

use std::borrow::Cow;

use axum::{
    http::{
        HeaderValue, Uri,
        header::{CACHE_CONTROL, CONTENT_TYPE, LINK},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::cursor::{CursorRefusal, CursorScope, Place};
use linkledger_http::problem::{CURSOR_NOT_OF_LIST, Code, Problem};
use serde::Serialize;
use serde_json::json;
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{
        Ref, RefOr, Schema,
        path::{Parameter, ParameterIn},
    },
};

use crate::{
    cache_control::NOT_SHARED,
    parameters::{ParameterError, Parameters, parse_number},
};

/// Name of the parameter for the page size of a list.
pub(crate) const LIMIT: &str = "limit";
/// Name of the parameter for the start of a page.
pub(crate) const CURSOR: &str = "cursor";

const LIMIT_MIN: u8 = 1;
const LIMIT_MAX: u8 = 100;
const LIMIT_DEFAULT: u8 = 50;

/// Page of a list that a request asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct PageRequest {
    /// Maximum number of items on the page.
    pub(crate) limit: u8,
    /// Start of the page, as `next_cursor` of the page before.
    pub(crate) cursor: Option<String>,
}

impl PageRequest {
    /// Reads the parameters of a list without filters.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Problem> {
        let mut parameters = Parameters::of(uri, &[LIMIT, CURSOR]);
        let page = Self::take(&mut parameters);
        parameters.check().map(|()| page)
    }

    /// Takes `limit` and `cursor` from the parameters, which record an invalid `limit`.
    pub(crate) fn take(parameters: &mut Parameters) -> Self {
        Self::take_after(parameters, CURSOR)
    }

    /// Takes `limit`, and the cursor from the parameter with the given name.
    pub(crate) fn take_after(parameters: &mut Parameters, cursor: &str) -> Self {
        Self {
            limit: parameters.take(LIMIT, parse_limit).unwrap_or(LIMIT_DEFAULT),
            cursor: parameters.take(cursor, |text| Ok(text.to_owned())),
        }
    }

    /// Returns the number of items to read: one more than the page shows, so that `has_more` is
    /// known.
    pub(crate) fn count_max(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// Drops the items after the page. Returns the last item on the page if another page follows.
    pub(crate) fn truncate<'i, T>(&self, items: &'i mut Vec<T>) -> Option<&'i T> {
        let has_more = items.len() > usize::from(self.limit);
        items.truncate(self.limit.into());
        items.last().filter(|_| has_more)
    }
}

impl IntoParams for PageRequest {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameters = json!([
            {
                "name": LIMIT,
                "in": "query",
                "description": "Most items on the page.",
                "required": false,
                "schema": {
                    "type": "integer",
                    "minimum": LIMIT_MIN,
                    "maximum": LIMIT_MAX,
                    "default": LIMIT_DEFAULT,
                },
            },
            {
                "name": CURSOR,
                "in": "query",
                "description": "`next_cursor` of the page before, as it is; the first page needs none.",
                "required": false,
                "schema": { "type": "string", "format": "cursor" },
            },
        ]);
        serde_json::from_value(parameters).expect("parameters")
    }
}

/// Parses the most items on a page.
pub(crate) fn parse_limit(text: &str) -> Result<u8, ParameterError> {
    parse_number(LIMIT, LIMIT_MIN..=LIMIT_MAX, text)
}

/// Makes the pages of one list of one account, and the cursors between the pages.
pub(crate) struct Paginator<'a> {
    pub(crate) scope: CursorScope,
    pub(crate) base_url: &'a str,
}

/// Items of a page, in the order of the list.
pub(crate) struct PageItems<T, P> {
    /// One item more than the limit of the page, if there are as many.
    pub(crate) items: Vec<T>,
    /// Place up to which the list was read, if the read stopped before the end of the list or of the page.
    pub(crate) stopped_at: Option<P>,
}

impl<T, P> From<Vec<T>> for PageItems<T, P> {
    fn from(items: Vec<T>) -> Self {
        Self {
            items,
            stopped_at: None,
        }
    }
}

/// Page as sent to the client. A handler names its page by an alias, without which the document would have the items
/// inline.
#[derive(Serialize)]
pub(crate) struct Page<B> {
    items: Vec<B>,
    next_cursor: Option<String>,
    has_more: bool,
}

impl<B> Page<B> {
    /// Returns the page of a list that is never longer than one.
    pub(crate) const fn whole(items: Vec<B>) -> Self {
        Self {
            items,
            next_cursor: None,
            has_more: false,
        }
    }
}

impl<B: ToSchema> ToSchema for Page<B> {
    fn name() -> Cow<'static, str> {
        format!("{}Page", B::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((B::name().into_owned(), B::schema()));
        B::schemas(schemas);
    }
}

impl<B: ToSchema> PartialSchema for Page<B> {
    fn schema() -> RefOr<Schema> {
        let schema = json!({
            "type": "object",
            "description": "Page of a list.",
            "required": ["items", "next_cursor", "has_more"],
            "properties": {
                "items": { "type": "array", "items": Ref::from_schema_name(B::name()) },
                "next_cursor": {
                    "type": ["string", "null"],
                    "description": "Start of the next page; null on the last page.",
                },
                "has_more": { "type": "boolean", "description": "True if another page follows." },
            },
        });
        serde_json::from_value(schema).expect("a schema")
    }
}

impl Paginator<'_> {
    /// Returns the place of the last item before the page; `None` for the first page. The place can be any, also one
    /// that no cursor of the service has.
    ///
    /// # Errors
    /// Returns `invalid_cursor` if the cursor is not of this list of this account with these filters.
    pub(crate) fn start_of<P: Place>(&self, page: &PageRequest) -> Result<Option<P>, Problem> {
        let cursor = page.cursor.as_deref();
        let place = cursor.map(|cursor| self.scope.place_of(cursor));
        place.transpose().map_err(invalid_cursor)
    }

    /// Returns the page of the first `page.limit` items. One item more than the limit, or a read that has stopped
    /// before its end, means that another page follows. `place_of` returns the place of an item.
    pub(crate) fn answer<T, P: Place, B: Serialize>(
        &self,
        page: &PageRequest,
        items: PageItems<T, P>,
        place_of: impl Fn(&T) -> P,
        body_of: impl Fn(T) -> B,
    ) -> Response {
        let PageItems {
            mut items,
            stopped_at,
        } = items;
        let last_place = page.truncate(&mut items).map(place_of).or(stopped_at);
        let next_cursor = last_place.map(|place| self.scope.cursor_after(&place));
        let items: Vec<B> = items.into_iter().map(body_of).collect();
        let next_page = next_cursor
            .as_ref()
            .map(|cursor| self.link_to(page.limit, CURSOR, cursor));
        let page = Page {
            items,
            has_more: next_cursor.is_some(),
            next_cursor,
        };
        let page = serde_json::to_vec(&page).expect("texts and numbers");
        let headers = [
            (CACHE_CONTROL, NOT_SHARED),
            (CONTENT_TYPE, "application/json"),
        ];
        let mut response = (headers, page).into_response();
        if let Some(next_page) = next_page {
            response.headers_mut().insert(LINK, next_page);
        }
        response
    }

    /// Returns the `Link` header of the next page, whose cursor is the named parameter. The address has the configured
    /// host, not the host that the request names.
    pub(crate) fn link_to(&self, limit: u8, parameter: &str, cursor: &str) -> HeaderValue {
        let (base_url, CursorScope { list, filters, .. }) = (self.base_url, &self.scope);
        let separator = if filters.is_empty() { "" } else { "&" };
        let link = format!(
            "<{base_url}{list}?{filters}{separator}{LIMIT}={limit}&{parameter}={cursor}>; rel=\"next\""
        );
        HeaderValue::from_str(&link).expect("addresses and cursors are ASCII")
    }
}

fn invalid_cursor(refusal: CursorRefusal) -> Problem {
    let detail = match refusal {
        CursorRefusal::NotOfList => CURSOR_NOT_OF_LIST,
        CursorRefusal::OtherFilters => {
            "The cursor belongs to a list with other filters or in another order: send the filters and the order of \
             the page before, or begin without a cursor."
        }
    };
    Problem::invalid_cursor(detail)
}

/// Names the parameter of a cursor in a problem of the cursor, for lists that do not call it [`CURSOR`].
pub(crate) fn of_parameter(name: &str, problem: Problem) -> Problem {
    if problem.code != Code::InvalidCursor {
        return problem;
    }
    let error =
        json!({ "parameter": name, "code": problem.code.as_str(), "detail": problem.detail });
    problem.with("errors", vec![error])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<PageRequest, Problem> {
        PageRequest::of(&format!("/v1/links{query}").parse().unwrap())
    }

    fn limit(text: &str) -> Option<u8> {
        parse(&format!("?limit={text}")).ok().map(|page| page.limit)
    }

    #[test]
    fn missing_limit_and_cursor_use_defaults() {
        let page = PageRequest {
            limit: 50,
            cursor: None,
        };
        assert_eq!(parse(""), Ok(page));
        let page = PageRequest {
            limit: 7,
            cursor: Some("a+b".to_owned()),
        };
        assert_eq!(parse("?cursor=a%2Bb&limit=7"), Ok(page));
    }

    #[test]
    fn limit_accepts_canonical_numbers_1_to_100() {
        for (text, number) in [("1", 1), ("9", 9), ("50", 50), ("100", 100), ("%31", 1)] {
            assert_eq!(limit(text), Some(number), "{text}");
        }
        for text in [
            "",
            "0",
            "101",
            "256",
            "1000",
            "-1",
            "+5",
            "%2B5",
            "05",
            "005",
            "5%20",
            "%205",
            "5.0",
            "1e1",
            "0x5",
            "%D9%A5",
            "five",
            "5,6",
            "18446744073709551617",
        ] {
            assert_eq!(limit(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_limit_names_minimum_and_maximum() {
        let problem = parse("?limit=0").unwrap_err();
        assert_eq!(problem.code, Code::InvalidParameter);
        assert_eq!(problem.members["minimum"], 1);
        assert_eq!(problem.members["maximum"], 100);
        assert_eq!(problem.members["errors"][0]["parameter"], "limit");
    }
}
