//! `GET /admin/v1/links`: the link with a slug, a short address or an id, of any account, or with an external id of one
//! account.

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::AdminScope,
    event::Subject,
    id::{AccountId, LinkId},
    link::{ExistingLink, LinkName, Slug, details::parse_external_id},
    shard::Shard,
};
use linkledger_event_store::{
    external_ids, links,
    log::{StreamPart, read_stream_backwards},
    names,
};
use linkledger_http::{
    admin_views::LinkView,
    problem::{Code, Problem},
    route_table,
    storage::read_in_time,
};
use serde_json::json;
use sqlx::PgPool;
use utoipa::IntoParams;

use super::admin_request::{AdminRequest, unreadable};
use crate::{
    cache_control::NOT_SHARED,
    parameters::{ParameterError, Parameters, parse_id},
};

const SLUG: &str = "slug";
const SHORT_URL: &str = "short_url";
const ID: &str = "id";
const EXTERNAL_ID: &str = "external_id";
const ACCOUNT: &str = "account";
const PARAMETERS: [&str; 5] = [SLUG, SHORT_URL, ID, EXTERNAL_ID, ACCOUNT];

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct NameParameters {
    /// Slug of the link, in upper or lower case.
    #[param(example = "Spring-26")]
    slug: Option<String>,
    /// Short address of the link, with or without its scheme.
    #[param(example = "https://sho.rt/Spring-26")]
    short_url: Option<String>,
    /// Id of the link.
    #[param(example = "lnk_01h455vb4pex5vsknk084sn02q")]
    id: Option<String>,
    /// Id of the link in its owner's system, with `account`. A deleted link has none.
    #[param(example = "offers/2026-spring")]
    external_id: Option<String>,
    /// Account of the link with `external_id`.
    #[param(example = "acc_01h455vb4pex5vsknk084sn02q")]
    account: Option<String>,
}

/// The one way in which a request names a link.
#[derive(Debug, PartialEq, Eq)]
enum NamedLink {
    Name(LinkName),
    ExternalId(AccountId, String),
}

/// Returns the link of any account, deleted links included.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_LINKS,
    tag = "links",
    summary = "Find a link",
    description = "The link with a slug, a short address or an id, or with an external id of an account: send exactly \
                   one of `slug`, `short_url`, `id`, and `external_id` with `account`. A deleted link is found too, \
                   except by its external id, which another link may have.",
    params(NameParameters),
    responses(
        (status = 200, description = "The link, with its account.", body = LinkView,
         example = json!(LinkView::example())),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn find_link(request: AdminRequest) -> Result<Response, Problem> {
    let mut parameters = Parameters::of(&request.uri, &PARAMETERS);
    let named = NamedLink::take(&mut parameters);
    parameters.check()?;
    let named = named?;
    request.check_accept()?;

    let link = read_link(request.log(), &named).await?;
    let body = LinkView::of(&link, &request.admin.short_base_url);
    Ok(([(CACHE_CONTROL, NOT_SHARED)], Json(body)).into_response())
}

impl NamedLink {
    /// Takes the parameters, which record malformed ones.
    ///
    /// # Errors
    /// Returns `invalid_parameter` if those that are well-formed name no link, or more than one.
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        let slug = parameters.take(SLUG, |text| {
            let slug = Slug::parse_stored(text).map(LinkName::Slug);
            slug.map_err(|_| ParameterError::new("slug_invalid", "Send the slug of a link."))
        });
        let short_url = parameters.take(SHORT_URL, |text| {
            let name: Option<LinkName> = text.parse().ok();
            let address = name.filter(|name| matches!(name, LinkName::ShortAddress(_)));
            let detail = "Send a short address such as https://sho.rt/Spring-26, percent-encoded.";
            address.ok_or_else(|| ParameterError::new("short_url_invalid", detail))
        });
        let id = parameters.take(ID, |text| parse_id(text).map(LinkName::Id));
        let external_id = parameters.take(EXTERNAL_ID, |text| {
            let detail = "Send 1 to 128 letters, digits and ., _, :, /, -, percent-encoded.";
            parse_external_id(text).map_err(|_| ParameterError::new("external_id_invalid", detail))
        });
        let account: Option<AccountId> = parameters.take(ACCOUNT, parse_id);
        let names: Vec<LinkName> = [slug, short_url, id].into_iter().flatten().collect();
        match (names.as_slice(), external_id, account) {
            ([name], None, None) => Ok(Self::Name(name.clone())),
            ([], Some(external_id), Some(account_id)) => {
                Ok(Self::ExternalId(account_id, external_id))
            }
            ([], Some(_), None) => Err(account_missing()),
            ([] | [_], None, Some(_)) => Err(external_id_missing()),
            _ => Err(not_one_name()),
        }
    }

    /// Finds the id of the link. An id is returned without a check that it exists.
    async fn find(&self, log: &PgPool) -> sqlx::Result<Option<LinkId>> {
        match self {
            Self::Name(name) => names::find_link(log, name).await,
            Self::ExternalId(account_id, external_id) => {
                external_ids::find_holder(log, *account_id, external_id).await
            }
        }
    }
}

fn account_missing() -> Problem {
    let detail = "Send account too: an external id names a link of one account.";
    Problem::invalid_parameter(ACCOUNT, "required_with_external_id", detail)
}

fn external_id_missing() -> Problem {
    let detail = "Send account only together with external_id: every other name is of one link of all accounts.";
    Problem::invalid_parameter(ACCOUNT, "only_with_external_id", detail)
}

/// Returns the problem of a request that does not name a link in exactly one way.
fn not_one_name() -> Problem {
    let detail = "Send exactly one of slug, short_url, id, and external_id with account.";
    let errors = PARAMETERS
        .map(|name| json!({ "parameter": name, "code": "exactly_one_required", "detail": detail }));
    Problem::new(Code::InvalidParameter, detail).with("errors", errors.to_vec())
}

/// Reads the link as its last event left it.
async fn read_link(log: &PgPool, named: &NamedLink) -> Result<ExistingLink, Problem> {
    let link_id = read_in_time(|| named.find(log)).await?;
    let link_id = link_id.ok_or_else(no_such_link)?;
    let owner = read_in_time(|| links::find_owner(log, link_id)).await?;
    let account_id = owner.ok_or_else(no_such_link)?;
    let part = StreamPart::newest(Shard::of(account_id), Subject::Link(link_id), 1);
    let mut events = read_in_time(|| read_stream_backwards(log, &part)).await?;
    let event = events.pop().ok_or_else(no_such_link)?;
    let link = event.link_after();
    link.map_err(|error| unreadable(&link_id.to_string(), &error))
}

fn no_such_link() -> Problem {
    Problem::new(Code::LinkNotFound, "There is no such link; check its name.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "lnk_01h455vb4pex5vsknk084sn02q";
    const OWNER: &str = "acc_01h455vb4pex5vsknk084sn02q";

    fn named(query: &str) -> Result<NamedLink, Problem> {
        let uri = format!("/admin/v1/links?{query}").parse().unwrap();
        let mut parameters = Parameters::of(&uri, &PARAMETERS);
        let named = NamedLink::take(&mut parameters);
        parameters.check()?;
        named
    }

    /// Parameter and code of the first error.
    fn error(query: &str) -> [String; 2] {
        let problem = named(query).unwrap_err();
        assert_eq!(problem.code, Code::InvalidParameter, "{query}");
        let error = &problem.members["errors"][0];
        ["parameter", "code"].map(|member| error[member].as_str().unwrap().to_owned())
    }

    #[test]
    fn link_is_named_in_one_way() {
        let name = |text: &str| Ok(NamedLink::Name(text.parse().unwrap()));
        assert_eq!(named("slug=Spring-26"), name("Spring-26"));
        assert_eq!(named(&format!("id={LINK}")), name(LINK));
        let address = "https%3A%2F%2Fsho.rt%2FSpring-26";
        let expected = name("https://sho.rt/Spring-26");
        assert_eq!(named(&format!("short_url={address}")), expected);
        let external = NamedLink::ExternalId(OWNER.parse().unwrap(), "a/b".to_owned());
        let query = format!("external_id=a%2Fb&account={OWNER}");
        assert_eq!(named(&query), Ok(external));
    }

    #[test]
    fn missing_and_contradictory_names_are_told() {
        let not_one = ["slug", "exactly_one_required"];
        let no_account = ["account", "required_with_external_id"];
        let no_external_id = ["account", "only_with_external_id"];
        for (query, expected) in [
            (String::new(), not_one),
            (format!("slug=spring&id={LINK}"), not_one),
            ("external_id=a&slug=spring".to_owned(), not_one),
            (
                format!("external_id=a&account={OWNER}&slug=spring"),
                not_one,
            ),
            ("external_id=a".to_owned(), no_account),
            (format!("account={OWNER}"), no_external_id),
            (format!("slug=spring&account={OWNER}"), no_external_id),
        ] {
            assert_eq!(error(&query), expected, "{query}");
        }
    }

    #[test]
    fn malformed_names_are_rejected() {
        for (query, expected) in [
            ("slug=", "slug_invalid"),
            ("slug=a%20b", "slug_invalid"),
            ("slug=sho.rt%2Fspring", "slug_invalid"),
            ("short_url=spring", "short_url_invalid"),
            ("short_url=https%3A%2F%2Fsho.rt%2F", "short_url_invalid"),
            ("id=spring", "id_invalid"),
            (format!("id={OWNER}").as_str(), "id_invalid"),
            (
                format!("external_id=a%20b&account={OWNER}").as_str(),
                "external_id_invalid",
            ),
            (
                format!("external_id=a&account={LINK}").as_str(),
                "id_invalid",
            ),
            ("slug=spring&q=1", "unknown_parameter"),
        ] {
            let [_, code] = error(query);
            assert_eq!(code, expected, "{query}");
        }
    }
}
