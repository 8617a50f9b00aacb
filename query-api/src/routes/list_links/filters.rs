//! The filters and the order of the list. `docs/api.md#lists` describes both.
//!
//! A new filter is a field of [`LinkFilters`] and of [`FilterParameters`], a name in [`PARAMETERS`], a line in `take`,
//! `query` and `search`, and a condition in `read_model/links/search.rs`, with a walk
//! of its own there if an index serves the filter.

use linkledger_core::{
    field::FieldCode,
    id::{AccountId, LinkId},
    link::{
        Destination, DestinationHost, DestinationRules, Slug, SlugPrefix, Tags,
        details::parse_external_id, parse_tag, tag::TAGS_MAX,
    },
};
use linkledger_event_store::slugs;
use linkledger_http::{openapi::ExternalId, problem::Problem};
use serde_json::json;
use sqlx::PgPool;
use time::OffsetDateTime;
use url::form_urlencoded::Serializer;
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};
use uuid::Uuid;

use super::created::{CREATED_FROM, CREATED_TO, CreatedBound};
use crate::{
    parameters::{ParameterError, Parameters, parse_name},
    read_model::{
        links::{
            LinkKey, LinkRange, LinkRead,
            search::{LinkOrder, LinkSearch, StateFilter},
        },
        read_in_time,
    },
};

const SLUG: &str = "slug";
const SLUG_PREFIX: &str = "slug_prefix";
const DESTINATION_URL: &str = "destination_url";
const DESTINATION_HOST: &str = "destination_host";
const STATE: &str = "state";
const SORT: &str = "sort";
const OLDEST_FIRST: &str = "created_at";
const NEWEST_FIRST: &str = "-created_at";
const EXTERNAL_ID: &str = "external_id";
const TAG: &str = "tag";

/// Names of the parameters of filters and order.
pub(super) const PARAMETERS: [&str; 10] = [
    SLUG,
    SLUG_PREFIX,
    DESTINATION_URL,
    DESTINATION_HOST,
    EXTERNAL_ID,
    TAG,
    STATE,
    CREATED_FROM,
    CREATED_TO,
    SORT,
];

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct FilterParameters {
    /// Only the link with this slug, upper or lower case.
    #[param(inline)]
    slug: Option<Slug>,
    /// Only links whose slugs begin with this text, upper or lower case.
    #[param(
        min_length = 1,
        max_length = 64,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "spring-"
    )]
    slug_prefix: Option<String>,
    /// Only links with this destination, compared in the serialisation of the URL standard.
    #[param(inline)]
    destination_url: Option<Destination>,
    /// Only links to this host, without scheme and port; not to its subdomains.
    #[param(max_length = 253, example = "shop.example.com")]
    destination_host: Option<String>,
    /// Only the link with this external id.
    #[param(inline)]
    external_id: Option<ExternalId>,
    /// Only links with this tag, or with all of several tags, separated by commas.
    #[param(example = "spring,offers")]
    tag: Option<String>,
    /// Only links in this state. An expired link that is disabled counts as disabled.
    #[param(inline)]
    state: Option<StateName>,
    /// Only links that were created at this instant or later; a date is the begin of its UTC day.
    #[param(format = "instant-or-date")]
    created_from: Option<String>,
    /// Only links that were created before this instant; a date is the begin of its UTC day.
    #[param(format = "instant-or-date")]
    created_to: Option<String>,
    /// Order of the list: newest first (`-created_at`), or oldest first.
    #[param(inline)]
    sort: Option<SortName>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum StateName {
    Active,
    Disabled,
    Expired,
}

/// Orders of the list in the OpenAPI document, with names for generators, which make one name of both values.
struct SortName;

impl PartialSchema for SortName {
    fn schema() -> RefOr<Schema> {
        let schema = json!({
            "type": "string",
            "enum": ["-created_at", "created_at"],
            "x-enum-varnames": ["NewestFirst", "OldestFirst"],
            "default": "-created_at",
        });
        serde_json::from_value(schema).expect("a schema")
    }
}

impl ToSchema for SortName {}

/// Filters and order of the list. A listed link meets all filters.
#[derive(Debug, Default)]
pub(super) struct LinkFilters {
    slug: Option<Slug>,
    slug_prefix: Option<SlugPrefix>,
    destination: Option<Destination>,
    destination_host: Option<DestinationHost>,
    external_id: Option<String>,
    tags: Option<Tags>,
    state: Option<StateFilter>,
    created_from: Option<CreatedBound>,
    created_to: Option<CreatedBound>,
    order: LinkOrder,
}

impl LinkFilters {
    /// Takes the filters from the parameters, which record values that no link can have.
    pub(super) fn take(parameters: &mut Parameters) -> Self {
        // The settings may have changed since a link was created.
        let rules = DestinationRules::of_lookups();
        let slug = parameters.take(SLUG, |text| Slug::parse_stored(text).map_err(error));
        let slug_prefix = parameters.take(SLUG_PREFIX, |text| {
            SlugPrefix::parse(text).map_err(prefix_error)
        });
        let destination = parameters.take(DESTINATION_URL, |text| {
            Destination::parse(text, &rules).map_err(error)
        });
        let destination_host = parameters.take(DESTINATION_HOST, |text| {
            DestinationHost::parse(text).map_err(host_error)
        });
        let external_id =
            parameters.take(EXTERNAL_ID, |text| parse_external_id(text).map_err(error));
        let tags = parameters.take(TAG, |text| parse_tags(text).map_err(error));
        let state = parameters.take(STATE, |text| {
            let names = StateFilter::ALL.map(StateFilter::name);
            parse_name(text, StateFilter::of_name, &names)
        });
        let (created_from, created_to) = CreatedBound::take(parameters);
        let order = parameters.take(SORT, |text| {
            let of_name = |name: &str| match name {
                NEWEST_FIRST => Some(LinkOrder::NewestFirst),
                OLDEST_FIRST => Some(LinkOrder::OldestFirst),
                _ => None,
            };
            parse_name(text, of_name, &[NEWEST_FIRST, OLDEST_FIRST])
        });
        Self {
            slug,
            slug_prefix,
            destination,
            destination_host,
            external_id,
            tags,
            state,
            created_from,
            created_to,
            order: order.unwrap_or_default(),
        }
    }

    /// Returns filters and order as a query: equal for equal filters, however spelled; empty for the whole list,
    /// newest first.
    pub(super) fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        let mut append = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        };
        append(SLUG, self.slug.as_ref().map(Slug::key).as_deref());
        append(
            SLUG_PREFIX,
            self.slug_prefix.as_ref().map(SlugPrefix::as_str),
        );
        append(
            DESTINATION_URL,
            self.destination.as_ref().map(Destination::as_str),
        );
        append(
            DESTINATION_HOST,
            self.destination_host.as_ref().map(DestinationHost::as_str),
        );
        append(EXTERNAL_ID, self.external_id.as_deref());
        let tags = self.tags.as_ref().map(|tags| tags.as_slice().join(","));
        append(TAG, tags.as_deref());
        append(STATE, self.state.map(StateFilter::name));
        append(
            CREATED_FROM,
            self.created_from.map(CreatedBound::text).as_deref(),
        );
        append(
            CREATED_TO,
            self.created_to.map(CreatedBound::text).as_deref(),
        );
        append(
            SORT,
            (self.order == LinkOrder::OldestFirst).then_some(OLDEST_FIRST),
        );
        query.finish()
    }

    /// Returns the read of a page. Asks the event store for the link that holds the slug: the holder of a slug never
    /// changes, and the event store never lags behind.
    ///
    /// # Errors
    /// Returns `storage_unavailable` if the database fails or does not answer in time.
    pub(super) async fn look_up(
        mut self,
        pool: &PgPool,
        page: PageOfList,
    ) -> Result<ListRead, Problem> {
        let slug = self.slug.take();
        let has_other_filters = !self.query().is_empty();
        let Some(slug) = &slug else {
            return Ok(if has_other_filters {
                ListRead::Search(self.search(page, None))
            } else {
                ListRead::Whole(LinkRange {
                    account_id: page.account_id,
                    before: page.last.map(Uuid::from_u128),
                    count_max: page.count_max,
                })
            });
        };
        let holder = read_in_time(|| slugs::find_holder(pool, slug)).await?;
        // No link has the nil id.
        let no_link = LinkId::from_uuid(Uuid::nil());
        let link_id = holder.map_or(no_link, |holder| holder.link_id);
        if has_other_filters || page.last.is_some() {
            return Ok(ListRead::Search(self.search(page, Some(link_id))));
        }
        Ok(ListRead::One(LinkRead {
            key: LinkKey {
                account_id: page.account_id,
                link_id,
            },
            // A list may be read again until its snapshot has a position.
            with_visibility: true,
        }))
    }

    /// Returns the search for a page, of one link only if `only` is given.
    fn search(self, page: PageOfList, only: Option<LinkId>) -> LinkSearch {
        let mut start = self.created_from.map_or(0, CreatedBound::lowest_id);
        // The highest UUID is no UUIDv7, so no link has it.
        let mut end = self.created_to.map_or(u128::MAX, CreatedBound::lowest_id);
        if let Some(link_id) = only {
            let link_id = link_id.uuid().as_u128();
            start = start.max(link_id);
            end = end.min(link_id.saturating_add(1));
        }
        match (page.last, self.order) {
            (Some(last), LinkOrder::NewestFirst) => end = end.min(last),
            (Some(last), LinkOrder::OldestFirst) => start = start.max(last.saturating_add(1)),
            (None, _) => {}
        }
        LinkSearch {
            account_id: page.account_id,
            start: Uuid::from_u128(start),
            end: Uuid::from_u128(end),
            order: self.order,
            slug_prefix: self.slug_prefix,
            destination_url: self.destination.map(Destination::into_string),
            destination_host: self.destination_host.map(|host| host.as_str().to_owned()),
            external_id: self.external_id,
            tags: self.tags.map(|tags| tags.as_slice().to_vec()),
            state: self.state,
            now: page.now,
            count_max: page.count_max,
        }
    }
}

/// Page of the list of an account.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageOfList {
    pub(super) account_id: AccountId,
    /// Id of the last link of the page before, in the order of the list.
    pub(super) last: Option<u128>,
    pub(super) count_max: i64,
    /// Time at which links have expired or not.
    pub(super) now: OffsetDateTime,
}

/// Read that answers a request.
pub(super) enum ListRead {
    /// Page of the whole list, newest first; shares its statement with other requests.
    Whole(LinkRange),
    /// One link by its slug; shares its statement with other requests.
    One(LinkRead),
    Search(LinkSearch),
}

/// Parses tags separated by commas.
fn parse_tags(text: &str) -> Result<Tags, FieldCode> {
    let tags: Result<Vec<String>, FieldCode> = text.split(',').map(parse_tag).collect();
    let tags = Tags::of(tags?).ok_or(FieldCode::TagInvalid)?;
    if tags.as_slice().len() > TAGS_MAX {
        return Err(FieldCode::TooManyTags);
    }
    Ok(tags)
}

fn error(code: FieldCode) -> ParameterError {
    ParameterError::new(code.as_str(), code.detail())
}

fn prefix_error(code: FieldCode) -> ParameterError {
    let mut error = error(code);
    if code == FieldCode::SlugInvalidCharacter {
        let detail = "Use A-Z, a-z, 0-9, '.', '_' and '-'; begin with a letter or a digit.";
        detail.clone_into(&mut error.detail);
    } else if code == FieldCode::SlugTooShort {
        "A prefix has at least one character.".clone_into(&mut error.detail);
    }
    error
}

fn host_error(code: FieldCode) -> ParameterError {
    let mut error = error(code);
    if matches!(code, FieldCode::UrlHostNotAllowed | FieldCode::UrlInvalid) {
        let detail = "Send a host alone, such as www.example.com, without scheme, port and path.";
        detail.clone_into(&mut error.detail);
    }
    error
}

#[cfg(test)]
mod tests;
