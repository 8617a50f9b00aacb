//! `GET /admin/v1/accounts`: a page of the accounts, oldest first, all or those found by a filter.

use axum::response::Response;
use linkledger_core::{
    account::{AccountState, parse_external_id},
    api_key::AdminScope,
    id::AccountId,
};
use linkledger_event_store::accounts::{self, AccountFilter, ListedAccount};
use linkledger_http::{
    admin_views::AccountView, problem::Problem, route_table, storage::read_in_time,
};
use url::form_urlencoded::Serializer;
use utoipa::IntoParams;
use uuid::Uuid;

use super::admin_request::AdminRequest;
use crate::{
    paging::{CURSOR, LIMIT, Page, PageRequest},
    parameters::{ParameterError, Parameters, parse_name},
};

const EXTERNAL_ID: &str = "external_id";
const Q: &str = "q";
const STATE: &str = "state";

/// Shortest text to search for, in characters: the index of names has parts of this length.
const Q_LENGTH_MIN: usize = 3;
/// Longest text to search for, in characters: no name and no external id is longer.
const Q_LENGTH_MAX: usize = 200;

/// Body of the answer, with a name of its own in the OpenAPI document.
type AccountPage = Page<AccountView>;

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct FilterParameters {
    /// Only the account with this id in the seller's system.
    #[param(max_length = 128, example = "customers/4711")]
    external_id: Option<String>,
    /// Only accounts with this text in their name or their external id, in upper or lower case.
    #[param(min_length = 3, max_length = 200, example = "exam")]
    q: Option<String>,
    /// Only accounts in this state: `active` or `suspended`.
    #[param(example = "active")]
    state: Option<String>,
}

/// Filters of the list. A listed account meets all of them.
#[derive(Debug, Default)]
struct Filters {
    external_id: Option<String>,
    q: Option<String>,
    state: Option<AccountState>,
}

impl Filters {
    fn take(parameters: &mut Parameters) -> Self {
        let states = AccountState::ALL.map(AccountState::name);
        Self {
            external_id: parameters.take(EXTERNAL_ID, external_id),
            q: parameters.take(Q, searched_text),
            state: parameters.take(STATE, |text| {
                parse_name(text, AccountState::of_name, &states)
            }),
        }
    }

    /// Returns the filters as a query in canonical form.
    fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        let state = self.state.map(AccountState::name);
        for (name, value) in [
            (EXTERNAL_ID, self.external_id.as_deref()),
            (Q, self.q.as_deref()),
            (STATE, state),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }
}

/// Parses the id of an account in the seller's system.
pub(super) fn external_id(text: &str) -> Result<String, ParameterError> {
    parse_external_id(text).ok_or_else(|| {
        let detail = "Send 1 to 128 letters, digits and ., _, :, /, @, -, percent-encoded.";
        ParameterError::new("external_id_invalid", detail)
    })
}

fn searched_text(text: &str) -> Result<String, ParameterError> {
    if (Q_LENGTH_MIN..=Q_LENGTH_MAX).contains(&text.chars().count()) {
        return Ok(text.to_owned());
    }
    let detail = format!("Send {Q_LENGTH_MIN} to {Q_LENGTH_MAX} characters.");
    Err(ParameterError::new("out_of_range", detail))
}

/// Lists accounts in the order of their creation.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_ACCOUNTS,
    tag = "accounts",
    summary = "List accounts",
    description = "A page of the accounts, oldest first. With filters, the page has the accounts that meet all filters.",
    params(PageRequest, FilterParameters),
    responses(
        (status = 200, description = "A page of accounts.", body = AccountPage, headers(("Link")),
         links(("next_page" = (operation_id = "list_accounts", description = "With the same filters.",
                               parameters(("cursor" = "$response.body#/next_cursor"))))),
         example = json!({ "items": [AccountView::example()], "next_cursor": null, "has_more": false })),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_accounts(request: AdminRequest) -> Result<Response, Problem> {
    let known = [LIMIT, CURSOR, EXTERNAL_ID, Q, STATE];
    let mut parameters = Parameters::of(&request.uri, &known);
    let page = PageRequest::take(&mut parameters);
    let filters = Filters::take(&mut parameters);
    parameters.check()?;
    let list = request.list(filters.query());
    let after: Option<u128> = list.start_of(&page)?;
    request.check_accept()?;

    let after = after.map(|id| AccountId::from_uuid(Uuid::from_u128(id)));
    let filter = AccountFilter {
        external_id: filters.external_id.as_deref(),
        q: filters.q.as_deref(),
        state: filters.state,
    };
    let read = || accounts::list(request.log(), &filter, after, page.count_max());
    let found = read_in_time(read).await?;
    Ok(list.answer(&page, found.into(), place_of, |listed| body_of(&listed)))
}

fn place_of(listed: &ListedAccount) -> u128 {
    listed.account.account_id.uuid().as_u128()
}

fn body_of(listed: &ListedAccount) -> AccountView {
    AccountView::of_account(&listed.account, listed.balance)
}

#[cfg(test)]
mod tests {
    use linkledger_http::problem::Code;

    use super::*;

    fn filters(query: &str) -> Result<String, Code> {
        let uri = format!("/admin/v1/accounts?{query}").parse().unwrap();
        let mut parameters = Parameters::of(&uri, &[EXTERNAL_ID, Q, STATE]);
        let filters = Filters::take(&mut parameters);
        let checked = parameters.check().map_err(|problem| problem.code);
        checked.map(|()| filters.query())
    }

    #[test]
    fn filters_have_one_canonical_query() {
        for (query, canonical) in [
            ("", ""),
            ("q=%41bc", "q=Abc"),
            (
                "state=active&q=a%20b&external_id=a%2Fb",
                "external_id=a%2Fb&q=a+b&state=active",
            ),
            ("q=%C3%A4%C3%B6%C3%BC", "q=%C3%A4%C3%B6%C3%BC"),
        ] {
            assert_eq!(filters(query).as_deref(), Ok(canonical), "{query}");
        }
    }

    #[test]
    fn malformed_filters_are_rejected() {
        for query in [
            "q=ab",
            "q=",
            "q=%C3%A4%C3%B6",
            "state=Active",
            "state=",
            "external_id=",
            "external_id=a%20b",
        ] {
            assert_eq!(filters(query), Err(Code::InvalidParameter), "{query}");
        }
        let longest = "x".repeat(Q_LENGTH_MAX);
        assert!(filters(&format!("q={longest}")).is_ok());
        assert!(filters(&format!("q={longest}x")).is_err());
    }
}
