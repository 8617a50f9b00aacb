//! The filters of the list: `slug` and `destination_url`, both exact.
//! `docs/api.md#lists` describes the filters.

use linkledger_core::{
    event_store::slugs,
    field::FieldCode,
    http::route_table,
    id::LinkId,
    link::{Destination, OwnHosts, Slug},
    problem::Problem,
};
use sqlx::PgPool;
use url::form_urlencoded::Serializer;
use utoipa::IntoParams;

use crate::{
    parameters::{ParameterError, Parameters},
    read_model::{
        SnapshotRead,
        links::{self, LinkKey, LinkRange, LinkRead, LinkView},
        read_in_time,
    },
    read_servers::ReadServer,
};

pub(super) const SLUG: &str = "slug";
pub(super) const DESTINATION_URL: &str = "destination_url";

/// Filters of the list. A listed link meets all filters.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LinkFilters {
    /// Only the link with this slug, upper or lower case.
    #[param(inline)]
    slug: Option<Slug>,
    /// Only links with this destination, compared in the serialisation of the URL standard.
    #[param(inline, rename = "destination_url")]
    destination: Option<Destination>,
}

impl LinkFilters {
    /// Takes the filters from the parameters, which record values that no link can have.
    pub(super) fn take(parameters: &mut Parameters) -> Self {
        // Hosts of the service are allowed here: links to a host that the service took over later
        // are still found.
        let own_hosts = OwnHosts::default();
        Self {
            slug: parameters.take(SLUG, |text| Slug::parse_stored(text).map_err(error)),
            destination: parameters.take(DESTINATION_URL, |text| {
                Destination::parse(text, &own_hosts).map_err(error)
            }),
        }
    }

    /// Returns the filtered list as path and query: equal for equal filters, however spelled.
    pub(super) fn list(&self) -> String {
        let mut query = Serializer::new(String::new());
        if let Some(slug) = &self.slug {
            query.append_pair(SLUG, &slug.folded());
        }
        if let Some(destination) = &self.destination {
            query.append_pair(DESTINATION_URL, destination.as_str());
        }
        match query.finish().as_str() {
            "" => route_table::LINKS.to_owned(),
            query => format!("{}?{query}", route_table::LINKS),
        }
    }

    /// Asks the event store for the link that holds the slug. The holder of a slug never changes, and
    /// the event store never lags behind.
    ///
    /// # Errors
    /// Returns `storage_unavailable` if the database fails or does not answer in time.
    pub(super) async fn look_up(self, pool: &PgPool) -> Result<LinkFilter, Problem> {
        let Some(slug) = self.slug else {
            return Ok(LinkFilter::Any(self.destination));
        };
        let holder = read_in_time(|| slugs::find_holder(pool, &slug)).await?;
        // No link has the nil id.
        let no_link = LinkId::from_uuid(uuid::Uuid::nil());
        let link_id = holder.map_or(no_link, |holder| holder.link_id);
        Ok(LinkFilter::One(link_id, self.destination))
    }
}

fn error(code: FieldCode) -> ParameterError {
    ParameterError {
        code: code.as_str(),
        detail: code.detail().to_owned(),
        members: Vec::new(),
    }
}

/// Filters with the slug resolved to a link id.
pub(super) enum LinkFilter {
    /// All links, or the links with the given destination.
    Any(Option<Destination>),
    /// One link, if the link has the given destination.
    One(LinkId, Option<Destination>),
}

impl LinkFilter {
    /// Reads the links of the range that meet the filters.
    pub(super) async fn read(
        &self,
        server: &ReadServer,
        range: LinkRange,
    ) -> Result<SnapshotRead<Vec<LinkView>>, Problem> {
        match self {
            Self::Any(None) => server.link_pages.read(range).await,
            Self::Any(Some(destination)) => {
                let destination = destination.as_str();
                read_in_time(|| links::list_by_destination(&server.pool, range, destination)).await
            }
            Self::One(link_id, destination) => {
                let is_match = |link: &LinkView| {
                    let destination = destination.as_ref();
                    destination.is_none_or(|wanted| wanted.as_str() == link.parts.destination_url)
                };
                // One link fits on every page, so no cursor is needed.
                let read = LinkRead {
                    key: LinkKey {
                        account_id: range.account_id,
                        link_id: *link_id,
                    },
                    // A list may be read again until its snapshot has a position.
                    with_visibility: true,
                };
                let snapshot = server.links.read(read).await?;
                Ok(snapshot.map(|link| link.into_iter().filter(is_match).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(query: &str) -> Result<String, Problem> {
        let uri = format!("/v1/links?{query}").parse().unwrap();
        let mut parameters = Parameters::of(&uri, &[SLUG, DESTINATION_URL]);
        let filters = LinkFilters::take(&mut parameters);
        parameters.check().map(|()| filters.list())
    }

    #[test]
    fn equal_filters_make_the_same_list() {
        assert_eq!(list("").unwrap(), "/v1/links");
        assert_eq!(list("slug=Abc").unwrap(), "/v1/links?slug=abc");
        let address = "/v1/links?destination_url=https%3A%2F%2Fe.com%2F%3Fa%3D1%26slug%3Dabc";
        for query in [
            "destination_url=https://e.com/?a=1%26slug=abc",
            "destination_url=HTTPS%3A//E.com:443/?a=1%26slug%3Dabc",
        ] {
            assert_eq!(list(query).unwrap(), address, "{query}");
        }
        let both = "/v1/links?slug=abc&destination_url=https%3A%2F%2Fe.com%2F";
        for query in [
            "slug=ABC&destination_url=https://e.com",
            "destination_url=https://e.com/&slug=abc",
        ] {
            assert_eq!(list(query).unwrap(), both, "{query}");
        }
    }

    #[test]
    fn impossible_filter_values_are_rejected_with_field_codes() {
        let problem = list("slug=a/b&destination_url=example.com").unwrap_err();
        let errors = problem.members["errors"].as_array().unwrap();
        let named: Vec<_> = errors
            .iter()
            .map(|error| ["parameter", "code"].map(|member| error[member].as_str().unwrap()))
            .collect();
        let expected = [
            [SLUG, "slug_invalid_character"],
            [DESTINATION_URL, "url_invalid"],
        ];
        assert_eq!(named, expected);
    }
}
