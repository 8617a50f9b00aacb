use super::*;

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));
const LAST: u128 = 0x019a_0000_0000_7000_8000_0000_0000_0001;

fn filters(query: &str) -> Result<LinkFilters, Problem> {
    let uri = format!("/v1/links?{query}").parse().unwrap();
    let mut parameters = Parameters::of(&uri, &PARAMETERS);
    let filters = LinkFilters::take(&mut parameters);
    parameters.check().map(|()| filters)
}

fn canonical(query: &str) -> String {
    filters(query).unwrap().query()
}

/// Returns the range of ids of a page after [`LAST`].
fn range(query: &str) -> [u128; 2] {
    let page = PageOfList {
        account_id: ACCOUNT,
        last: Some(LAST),
        count_max: 51,
        now: OffsetDateTime::UNIX_EPOCH,
    };
    let search = filters(query).unwrap().search(page, None);
    [search.start, search.end].map(|id| id.as_u128())
}

#[test]
fn equal_filters_make_the_same_query() {
    for query in ["", "sort=-created_at"] {
        assert_eq!(canonical(query), "", "{query}");
    }
    assert_eq!(canonical("slug=Abc"), "slug=abc");
    let address = "destination_url=https%3A%2F%2Fe.com%2F%3Fa%3D1%26slug%3Dabc";
    for query in [
        "destination_url=https://e.com/?a=1%26slug=abc",
        "destination_url=HTTPS%3A//E.com:443/?a=1%26slug%3Dabc",
    ] {
        assert_eq!(canonical(query), address, "{query}");
    }
    let all = "slug=abc&slug_prefix=a&destination_url=https%3A%2F%2Fe.com%2F&destination_host=e.com&state=active\
               &created_from=2026-11-20T00%3A00%3A00.000Z&created_to=2026-11-20T09%3A00%3A00.001Z&sort=created_at";
    for query in [
        "slug=ABC&slug_prefix=A&destination_url=https://e.com&destination_host=E.com&state=active\
         &created_from=2026-11-20&created_to=2026-11-20T10:00:00.0009%2B01:00&sort=created_at",
        "sort=created_at&created_to=2026-11-20T09:00:00.001Z&created_from=2026-11-20T00:00:00Z&state=active\
         &destination_host=%65.com&destination_url=https://e.com/&slug_prefix=a&slug=abc",
    ] {
        assert_eq!(canonical(query), all, "{query}");
    }
    // The address of the next page is accepted, and has the same filters.
    assert_eq!(canonical(all), all);
}

#[test]
fn impossible_filter_values_are_rejected_with_codes() {
    for (query, parameter, code) in [
        ("slug=a/b", SLUG, "slug_invalid_character"),
        ("slug_prefix=", SLUG_PREFIX, "slug_too_short"),
        ("slug_prefix=-a", SLUG_PREFIX, "slug_invalid_character"),
        ("slug_prefix=a%25", SLUG_PREFIX, "slug_invalid_character"),
        ("slug_prefix=a%00", SLUG_PREFIX, "invalid_encoding"),
        (
            "destination_url=example.com",
            DESTINATION_URL,
            "url_scheme_missing",
        ),
        ("destination_host=", DESTINATION_HOST, "url_invalid"),
        (
            "destination_host=e.com:8080",
            DESTINATION_HOST,
            "url_host_not_allowed",
        ),
        (
            "destination_url=data:a",
            DESTINATION_URL,
            "url_scheme_not_allowed",
        ),
        (
            "destination_host=e%00.com",
            DESTINATION_HOST,
            "invalid_encoding",
        ),
        ("state=", STATE, "unknown_value"),
        ("state=Active", STATE, "unknown_value"),
        ("state=active,disabled", STATE, "unknown_value"),
        ("created_from=yesterday", CREATED_FROM, "invalid_time"),
        (
            "created_to=2026-11-20T25:00:00Z",
            CREATED_TO,
            "invalid_time",
        ),
        (
            "created_from=2026-11-20&created_to=2026-11-20",
            CREATED_TO,
            "range_empty",
        ),
        ("sort=slug", SORT, "unknown_value"),
        ("sort=%2Bcreated_at", SORT, "unknown_value"),
        (
            "slug_prefix=a&slug_prefix=a",
            SLUG_PREFIX,
            "repeated_parameter",
        ),
    ] {
        let problem = filters(query).unwrap_err();
        let error = &problem.members["errors"][0];
        assert_eq!(
            [&error["parameter"], &error["code"]],
            [parameter, code],
            "{query}"
        );
    }
}

#[test]
fn page_continues_within_the_range_of_creation() {
    let day = |text: &str| {
        let (from, _) = CreatedBound::take(&mut Parameters::of(
            &format!("/?created_from={text}").parse().unwrap(),
            &[CREATED_FROM],
        ));
        from.unwrap().lowest_id()
    };
    let (early, late) = (day("2020-01-01"), day("2090-01-01"));
    assert_eq!(range("sort=-created_at"), [0, LAST]);
    assert_eq!(range("sort=created_at"), [LAST + 1, u128::MAX]);
    let both = "created_from=2020-01-01&created_to=2090-01-01";
    assert_eq!(range(both), [early, LAST]);
    assert_eq!(range(&format!("{both}&sort=created_at")), [LAST + 1, late]);
}
