//! The filters of the list: `slug` and `destination_url`, both exact (contract §2).

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
        Seen, available,
        links::{self, Link, LinkKey, LinkRange},
    },
    routes::Api,
};

pub(super) const SLUG: &str = "slug";
pub(super) const DESTINATION_URL: &str = "destination_url";

/// What the listed links must have; all of it.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LinkFilters {
    /// Only the link with this slug, upper or lower case.
    #[param(inline)]
    slug: Option<Slug>,
    /// Only links to this address: compared as the URL standard serialises it.
    #[param(inline, rename = "destination_url")]
    destination: Option<Destination>,
}

impl LinkFilters {
    /// Takes them out of the parameters, which are told of those that no link can have.
    pub(super) fn take(parameters: &mut Parameters) -> Self {
        // Not of ours: what was stored before a host became our own is still found.
        let own_hosts = OwnHosts::default();
        Self {
            slug: parameters.take(SLUG, |text| Slug::parse_stored(text).map_err(error)),
            destination: parameters.take(DESTINATION_URL, |text| {
                Destination::parse(text, &own_hosts).map_err(error)
            }),
        }
    }

    /// The list that they make, as path and query: equal for equal filters, however spelled.
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

    /// Asks the event store whose slug it is: that never changes, and no projection can be behind.
    ///
    /// # Errors
    /// `storage_unavailable`.
    pub(super) async fn look_up(self, pool: &PgPool) -> Result<LinkFilter, Problem> {
        let Some(slug) = self.slug else {
            return Ok(LinkFilter::Any(self.destination));
        };
        let holder = available(slugs::find_holder(pool, &slug)).await?;
        // No link has the lowest id.
        let nobody = LinkId::from_uuid(uuid::Uuid::nil());
        let link_id = holder.map_or(nobody, |holder| holder.link_id);
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

/// The filters in the form in which they are read by.
pub(super) enum LinkFilter {
    /// The links with that destination, or all.
    Any(Option<Destination>),
    /// This link, if it has that destination.
    One(LinkId, Option<Destination>),
}

impl LinkFilter {
    /// The links of the range that it lets through.
    pub(super) async fn read(
        &self,
        api: &Api,
        range: LinkRange,
    ) -> Result<Seen<Vec<Link>>, Problem> {
        match self {
            Self::Any(None) => api.link_pages.read(range).await,
            Self::Any(Some(destination)) => {
                let destination = destination.as_str();
                available(links::list_by_destination(&api.pool, range, destination)).await
            }
            Self::One(link_id, destination) => {
                let wanted = |link: &Link| {
                    let destination = destination.as_ref();
                    destination.is_none_or(|it| it.as_str() == link.destination_url)
                };
                // Of one link no page ends before the end of the list: there is no cursor.
                let key = LinkKey {
                    account_id: range.account_id,
                    link_id: *link_id,
                };
                let seen = api.links.read(key).await?;
                Ok(seen.map(|link| link.into_iter().filter(wanted).collect()))
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
    fn equal_filters_are_one_list_and_others_another() {
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
    fn what_no_link_can_have_is_told_with_the_rule_that_it_breaks() {
        let problem = list("slug=a/b&destination_url=example.com").unwrap_err();
        let errors = problem.members["errors"].as_array().unwrap();
        let told: Vec<_> = errors
            .iter()
            .map(|error| ["parameter", "code"].map(|it| error[it].as_str().unwrap()))
            .collect();
        let expected = [
            [SLUG, "slug_invalid_character"],
            [DESTINATION_URL, "url_invalid"],
        ];
        assert_eq!(told, expected);
    }
}
