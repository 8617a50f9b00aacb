//! `GET /v1/links` with filters and orders, against the same filters written in Rust.

use std::collections::HashSet;

use linkledger_core::{clock::Clock as _, id::LinkId, shard::Shard};
use linkledger_testing::FixedClock;
use serde_json::json;
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::{
    read_tables::{insert_appended_link, insert_redirect, insert_tag, link_id},
    service::{TestCaller, TestService},
};

/// Returns a millisecond of 2026, at the begin of a second.
const MILLISECOND: u64 = 1_795_168_260_000;
const TAGS: [&str; 3] = ["spring", "offer:1", "other"];
const HOSTS: [&str; 4] = [
    "a.example",
    "shop.a.example",
    "b.example:8443",
    "xn--fa-hia.example",
];

/// Numbers that look random; the same ones in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        // Constants of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        let place = self.below(u64::try_from(values.len()).unwrap());
        values[usize::try_from(place).unwrap()]
    }
}

/// Link in all tables that lists read.
#[derive(Debug, Clone)]
struct StoredLink {
    id: LinkId,
    slug: String,
    destination_url: String,
    is_disabled: bool,
    is_expired: Option<bool>,
    external_id: Option<String>,
    tags: Vec<&'static str>,
    millisecond: u64,
}

impl StoredLink {
    fn draw(numbers: &mut Numbers, order: u64) -> Self {
        let letters: String = (0..2).map(|_| numbers.one_of(&['a', 'B', '-'])).collect();
        let millisecond = MILLISECOND + numbers.below(6);
        let host = numbers.one_of(&HOSTS);
        Self {
            id: link_id(millisecond, order),
            slug: format!("{}{letters}{order}", numbers.one_of(&["x", "X", "y"])),
            destination_url: format!("https://{host}/{}", numbers.below(3)),
            is_disabled: numbers.below(3) == 0,
            is_expired: (numbers.below(2) == 0).then(|| numbers.below(2) == 0),
            external_id: (numbers.below(2) == 0).then(|| format!("crm:{}", order % 1_000)),
            tags: TAGS.into_iter().filter(|_| numbers.below(3) == 0).collect(),
            millisecond,
        }
    }

    fn state(&self) -> &'static str {
        match (self.is_disabled, self.is_expired) {
            (true, _) => "disabled",
            (false, Some(true)) => "expired",
            (false, Some(false) | None) => "active",
        }
    }

    fn host(&self) -> &str {
        let authority = self.destination_url.split('/').nth(2).unwrap();
        authority.split(':').next().unwrap()
    }

    async fn insert(&self, pool: &PgPool, caller: &TestCaller) {
        sqlx::query("INSERT INTO event_store.slugs VALUES (lower($1), $1, $2, $3)")
            .bind(&self.slug)
            .bind(Shard::of(caller.account_id).number())
            .bind(self.id.uuid())
            .execute(pool)
            .await
            .unwrap();
        sqlx::query(
            "INSERT INTO event_store.events (shard, position, stream_id, version, account_id, event_id, type,
                 schema_version, payload, metadata, recorded_at)
             SELECT $1, 1000 + count(*), $2, 1, $3, $2, 'LinkCreated', 1, '{}', '{}', now()
             FROM event_store.events WHERE shard = $1",
        )
        .bind(Shard::of(caller.account_id).number())
        .bind(self.id.uuid())
        .bind(caller.account_id.uuid())
        .execute(pool)
        .await
        .unwrap();
        sqlx::query(
            "INSERT INTO read_model.links (generation, account_id, link_id, slug, destination_url, version, created_at,
                 external_id, tags, expires_at, disabled_by)
             VALUES (1, $1, $2, $3, $4, 1, to_timestamp($5::bigint / 1000.0), $6, nullif($7, '{}'), $8, $9)",
        )
        .bind(caller.account_id.uuid())
        .bind(self.id.uuid())
        .bind(&self.slug)
        .bind(&self.destination_url)
        .bind(i64::try_from(self.millisecond).unwrap())
        .bind(&self.external_id)
        .bind(&self.tags)
        .bind(self.is_expired.map(expiry))
        .bind(self.is_disabled.then_some("owner"))
        .execute(pool)
        .await
        .unwrap();
        sqlx::query(
            "INSERT INTO read_model.link_tags SELECT 1, $1, tag, $2 FROM unnest($3::text[]) AS tag",
        )
        .bind(caller.account_id.uuid())
        .bind(self.id.uuid())
        .bind(&self.tags)
        .execute(pool)
        .await
        .unwrap();
    }
}

/// Returns the current time of the services, at which a link is over, or an instant one millisecond later.
fn expiry(is_over: bool) -> OffsetDateTime {
    let now = FixedClock::default().now();
    if is_over {
        now
    } else {
        now + time::Duration::MILLISECOND
    }
}

/// Filters of a request, each with the probability of a third.
#[derive(Debug, Default)]
struct Filters {
    slug: Option<String>,
    slug_prefix: Option<&'static str>,
    destination_url: Option<String>,
    destination_host: Option<&'static str>,
    external_id: Option<String>,
    tags: Option<&'static str>,
    state: Option<&'static str>,
    created_from: Option<u64>,
    created_to: Option<u64>,
    is_oldest_first: bool,
}

impl Filters {
    fn draw(numbers: &mut Numbers, links: &[StoredLink]) -> Self {
        let mut filters = Self {
            is_oldest_first: numbers.below(2) == 0,
            ..Self::default()
        };
        let example =
            &links[usize::try_from(numbers.below(u64::try_from(links.len()).unwrap())).unwrap()];
        if numbers.below(6) == 0 {
            filters.slug = Some(example.slug.clone());
        }
        if numbers.below(3) == 0 {
            filters.slug_prefix = Some(numbers.one_of(&["x", "Xa", "yB-", "y-", "z"]));
        }
        if numbers.below(3) == 0 {
            filters.destination_url = Some(example.destination_url.clone());
        }
        if numbers.below(3) == 0 {
            let hosts = ["a.example", "shop.a.example", "b.example", "c.example"];
            filters.destination_host = Some(numbers.one_of(&hosts));
        }
        if numbers.below(3) == 0 {
            filters.state = Some(numbers.one_of(&["active", "disabled", "expired"]));
        }
        if numbers.below(8) == 0 {
            filters.external_id = Some(format!("crm:{}", numbers.below(90)));
        }
        if numbers.below(3) == 0 {
            filters.tags = Some(numbers.one_of(&["spring", "offer:1", "spring,offer:1", "none"]));
        }
        if numbers.below(3) == 0 {
            filters.created_from = Some(MILLISECOND + numbers.below(3));
        }
        if numbers.below(3) == 0 {
            filters.created_to = Some(MILLISECOND + 3 + numbers.below(4));
        }
        filters
    }

    fn query(&self) -> String {
        let instant = |millisecond: u64| format!("2026-11-20T09:51:00.{:03}Z", millisecond % 1_000);
        let parameters = [
            ("slug", self.slug.clone()),
            ("slug_prefix", self.slug_prefix.map(str::to_owned)),
            ("destination_url", self.destination_url.clone()),
            ("destination_host", self.destination_host.map(str::to_owned)),
            ("external_id", self.external_id.clone()),
            ("tag", self.tags.map(str::to_owned)),
            ("state", self.state.map(str::to_owned)),
            ("created_from", self.created_from.map(instant)),
            ("created_to", self.created_to.map(instant)),
            (
                "sort",
                self.is_oldest_first.then(|| "created_at".to_owned()),
            ),
        ];
        let sent = parameters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let sent = sent.map(|(name, value)| format!("{name}={value}"));
        sent.collect::<Vec<_>>().join("&")
    }

    fn pass(&self, link: &StoredLink) -> bool {
        let merged = link.slug.to_lowercase();
        self.slug
            .as_ref()
            .is_none_or(|slug| slug.to_lowercase() == merged)
            && self
                .slug_prefix
                .is_none_or(|prefix| merged.starts_with(&prefix.to_lowercase()))
            && self
                .destination_url
                .as_ref()
                .is_none_or(|url| *url == link.destination_url)
            && self.destination_host.is_none_or(|host| host == link.host())
            && self
                .external_id
                .as_ref()
                .is_none_or(|id| link.external_id.as_ref() == Some(id))
            && self
                .tags
                .is_none_or(|tags| tags.split(',').all(|tag| link.tags.contains(&tag)))
            && self.state.is_none_or(|state| state == link.state())
            && self
                .created_from
                .is_none_or(|from| link.millisecond >= from)
            && self.created_to.is_none_or(|to| link.millisecond < to)
    }

    /// Returns the ids of the links that meet the filters, in the order of the list.
    fn list(&self, links: &[StoredLink]) -> Vec<String> {
        let found = links.iter().filter(|link| self.pass(link));
        let mut found: Vec<LinkId> = found.map(|link| link.id).collect();
        found.sort_unstable();
        if !self.is_oldest_first {
            found.reverse();
        }
        found.iter().map(LinkId::to_string).collect()
    }
}

/// Reads all pages; calls `between` after each page.
async fn scan(
    service: &TestService,
    caller: &TestCaller,
    query: &str,
    mut between: impl AsyncFnMut(),
) -> Vec<String> {
    let mut listed = Vec::new();
    let mut path = format!("/v1/links?{query}");
    loop {
        let answer = service.get(caller, &path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let page = answer.json();
        let items = page["items"].as_array().unwrap().iter();
        listed.extend(items.map(|item| item["id"].as_str().unwrap().to_owned()));
        between().await;
        assert_eq!(page["has_more"], !page["next_cursor"].is_null(), "{path}");
        let Some(cursor) = page["next_cursor"].as_str() else {
            return listed;
        };
        path = format!("/v1/links?{query}&cursor={cursor}");
    }
}

/// Creates links of two accounts that differ in the numbers at the ends of their slugs only. Returns those of the first.
async fn two_accounts_with_links(
    service: &TestService,
    count: u64,
) -> (TestCaller, Vec<StoredLink>) {
    let (caller, other) = (service.caller().await, service.caller().await);
    let (mut numbers, mut others) = (Numbers(7), Numbers(7));
    let mut links = Vec::new();
    for order in 0..count {
        let link = StoredLink::draw(&mut numbers, order);
        link.insert(service.pool(), &caller).await;
        links.push(link);
        let foreign = StoredLink::draw(&mut others, 1_000 + order);
        foreign.insert(service.pool(), &other).await;
    }
    (caller, links)
}

#[tokio::test]
async fn random_filters_list_the_same_links_as_reference() {
    let service = TestService::start().await;
    let (caller, links) = two_accounts_with_links(&service, 90).await;
    let mut numbers = Numbers(1);
    let mut found = HashSet::new();
    for _ in 0..150 {
        let filters = Filters::draw(&mut numbers, &links);
        let limit = 1 + numbers.below(20);
        let query = format!("{}&limit={limit}", filters.query());
        let query = query.trim_start_matches('&');
        let listed = scan(&service, &caller, query, async || ()).await;
        assert_eq!(listed, filters.list(&links), "{query}");
        found.insert(listed.len());
    }
    // The filters leave all numbers of links, from none to many.
    assert!(found.contains(&0) && found.len() > 10, "{found:?}");
}

#[tokio::test]
async fn filtered_scan_under_changes_lists_each_link_once() {
    let service = TestService::start().await;
    let (caller, links) = two_accounts_with_links(&service, 60).await;
    let mut numbers = Numbers(2);
    let mut order = 5_000;
    for (filters, limit) in [
        ("", 4),
        ("sort=created_at", 4),
        ("slug_prefix=x", 3),
        ("slug_prefix=x&sort=created_at", 3),
        ("destination_host=a.example", 2),
        ("state=active&sort=created_at", 3),
        ("state=disabled", 2),
        ("state=expired", 2),
        ("tag=spring", 3),
    ] {
        let listed = scan(
            &service,
            &caller,
            &format!("{filters}&limit={limit}"),
            async || {
                order += 1;
                let link = StoredLink::draw(&mut numbers, order);
                link.insert(service.pool(), &caller).await;
            },
        )
        .await;
        let distinct: HashSet<&String> = listed.iter().collect();
        assert_eq!(distinct.len(), listed.len(), "{filters}");
        let existing: HashSet<String> = links.iter().map(|link| link.id.to_string()).collect();
        let of_existing: Vec<String> = listed
            .into_iter()
            .filter(|id| existing.contains(id))
            .collect();
        let expected = Filters {
            slug_prefix: filters.contains("slug_prefix").then_some("x"),
            destination_host: filters.contains("host").then_some("a.example"),
            state: ["active", "disabled", "expired"]
                .into_iter()
                .find(|state| filters.contains(state)),
            tags: filters.contains("tag=").then_some("spring"),
            is_oldest_first: filters.contains("sort"),
            ..Filters::default()
        };
        assert_eq!(of_existing, expected.list(&links), "{filters}");
    }
}

#[tokio::test]
async fn cursor_with_other_filters_names_the_mistake() {
    let service = TestService::start().await;
    let (caller, _) = two_accounts_with_links(&service, 30).await;
    let lists = [
        "",
        "sort=created_at",
        "destination_host=a.example",
        "slug_prefix=x",
        "slug_prefix=y",
        "state=active",
        "state=expired",
        "tag=spring",
        "created_from=2000-01-01",
    ];
    for list in lists {
        let page = service
            .get(&caller, &format!("/v1/links?{list}&limit=1"))
            .await
            .json();
        let Some(cursor) = page["next_cursor"].as_str() else {
            panic!("{list}: {page}");
        };
        for other in lists {
            let path = format!("/v1/links?{other}&limit=2&cursor={cursor}");
            let answer = service.get(&caller, &path).await;
            if list == other {
                assert_eq!(answer.status, 200, "{path}");
                continue;
            }
            answer.assert_problem(400, "invalid_cursor");
            let detail = answer.json()["detail"].to_string();
            assert!(detail.contains("other filters"), "{detail}");
        }
    }
}

#[tokio::test]
async fn rare_link_is_found_after_a_short_page() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let rare = StoredLink {
        id: link_id(MILLISECOND - 1, 0),
        slug: "rare".to_owned(),
        destination_url: "https://a.example/".to_owned(),
        is_disabled: false,
        is_expired: None,
        external_id: None,
        tags: Vec::new(),
        millisecond: MILLISECOND - 1,
    };
    rare.insert(service.pool(), &caller).await;
    sqlx::query(
        "INSERT INTO read_model.links
             (generation, account_id, link_id, slug, destination_url, version, created_at)
         SELECT 1, $1, ('01b00000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'slug-' || n,
                'https://a.example/', 1, now()
         FROM generate_series(1, 10005) AS n",
    )
    .bind(caller.account_id.uuid())
    .execute(service.pool())
    .await
    .unwrap();
    for filters in [
        "destination_url=https://a.example/&slug_prefix=rare",
        "destination_url=https://a.example/&slug_prefix=rare&state=active",
    ] {
        let mut pages = Vec::new();
        let first = service
            .get(&caller, &format!("/v1/links?{filters}"))
            .await
            .json();
        assert_eq!(
            (&first["items"], &first["has_more"]),
            (&json!([]), &json!(true))
        );
        let listed = scan(&service, &caller, filters, async || pages.push(())).await;
        assert_eq!((listed, pages.len()), (vec![rare.id.to_string()], 2));
    }
    // One index finds the link at once.
    for filters in [
        "slug_prefix=rare",
        "slug_prefix=rare&destination_host=a.example",
    ] {
        let first = service
            .get(&caller, &format!("/v1/links?{filters}"))
            .await
            .json();
        assert_eq!(first["items"].as_array().unwrap().len(), 1, "{filters}");
        assert_eq!(first["has_more"], false);
    }
}

/// Links under other settings, and tags in another spelling, are found.
#[tokio::test]
async fn filters_find_addresses_of_all_settings() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    for ((address, tag), order) in [
        ("tel:+15550100", "south east"),
        ("http://[fd00::1]:8080/a", "gr\u{fc}n"),
        ("http://[fd00::2]/a", "c++"),
        ("http://wiki/", "a&b"),
    ]
    .into_iter()
    .zip(0..)
    {
        let link_id = link_id(MILLISECOND, order);
        sqlx::query(
            "INSERT INTO read_model.links
                 (generation, account_id, link_id, slug, destination_url, version, created_at, tags)
             VALUES (1, $1, $2, $3, $4, 1, now(), ARRAY[$5])",
        )
        .bind(caller.account_id.uuid())
        .bind(link_id.uuid())
        .bind(order.to_string())
        .bind(address)
        .bind(tag)
        .execute(service.pool())
        .await
        .unwrap();
        insert_tag(service.pool(), caller.account_id, tag, link_id).await;
    }
    for (filter, found) in [
        ("destination_url=TEL:%2B15550100", "tel:+15550100"),
        ("destination_host=[FD00::1]", "http://[fd00::1]:8080/a"),
        ("destination_host=[fd00::2]", "http://[fd00::2]/a"),
        ("destination_host=wiki", "http://wiki/"),
        ("tag=South%20%20East", "tel:+15550100"),
        ("tag=gru%CC%88n", "http://[fd00::1]:8080/a"),
        ("tag=C%2B%2B", "http://[fd00::2]/a"),
        ("tag=a%26b,A%26B", "http://wiki/"),
    ] {
        let page = service.get(&caller, &format!("/v1/links?{filter}")).await;
        let page = page.json();
        assert_eq!(
            page["items"][0]["destination_url"], found,
            "{filter}: {page}"
        );
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{filter}");
    }
}

#[tokio::test]
async fn state_filter_agrees_with_the_shown_link() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "lagging").await;
    insert_appended_link(service.pool(), &link).await;
    // The read model of redirects lags: the link is active there.
    insert_redirect(service.pool(), &link).await;
    let disable = "UPDATE read_model.links SET disabled_by = 'owner' WHERE slug = 'lagging'";
    sqlx::query(disable).execute(service.pool()).await.unwrap();
    for (state, count) in [("active", 0), ("disabled", 1), ("expired", 0)] {
        let path = format!("/v1/links?state={state}");
        let items = service.get(&caller, &path).await.json()["items"].clone();
        assert_eq!(items.as_array().unwrap().len(), count, "{state}: {items}");
    }
}
