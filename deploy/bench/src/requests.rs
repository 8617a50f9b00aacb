//! The HTTP requests of the loads.

use std::sync::Arc;

use linkledger_core::{clock, http::route_table};
use rand::{SeedableRng as _, rngs::SmallRng};
use uuid::Builder;

use crate::{
    accounts::LoadAccount,
    load::RequestWriter,
    visitors::VisitorShares,
    visits::{SEED, Visits},
};

/// Number of different visitors of a load.
const VISITORS: usize = 2_048;

/// Makes requests that create links: each request creates a new link with a new idempotency key,
/// for the accounts in turn, from any account on.
///
/// The keys are random, so that no load repeats a key of another load: a replayed create costs
/// less.
pub fn creates(accounts: &[LoadAccount]) -> RequestWriter {
    let accounts = accounts.to_vec();
    let first = u64::from(u32::from_ne_bytes(clock::random_bytes()));
    Arc::new(move |number, buffer| {
        let account = &accounts[turn(first + number, accounts.len())];
        let body = format!(r#"{{"destination_url":"https://example.com/some/path?n={number}"}}"#);
        let key = Builder::from_random_bytes(clock::random_bytes()).into_uuid();
        let request = format!(
            "POST /v1/links HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nIdempotency-Key: {key}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            account.api_key.reveal(),
            body.len(),
        );
        buffer.extend_from_slice(request.as_bytes());
    })
}

/// Makes requests for the newest page of links, for the accounts in turn.
pub fn lists(accounts: &[LoadAccount], limit: usize) -> RequestWriter {
    let lists = accounts.iter().map(|account| list(account, limit, None));
    let lists: Vec<String> = lists.collect();
    Arc::new(move |number, buffer| {
        buffer.extend_from_slice(lists[turn(number, lists.len())].as_bytes());
    })
}

/// Formats a request for a page of links of the account, after the cursor.
pub fn list(account: &LoadAccount, limit: usize, cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}"));
    format!(
        "GET {}?limit={limit}{} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\r\n",
        route_table::LINKS,
        cursor.unwrap_or_default(),
        account.api_key.reveal()
    )
}

/// Makes visits to these short links in turn.
pub fn visits(slugs: Arc<[String]>) -> RequestWriter {
    Arc::new(move |number, buffer| visit(&slugs[turn(number, slugs.len())], buffer))
}

/// Formats a visit to a short link.
pub fn visit(slug: &str, buffer: &mut Vec<u8>) {
    for part in ["GET /", slug, " HTTP/1.1\r\nHost: bench\r\n\r\n"] {
        buffer.extend_from_slice(part.as_bytes());
    }
}

/// Makes visits to any of these short links, a few of which get most visits, with the headers of
/// browsers and bots.
///
/// # Errors
/// Returns an error if there are no links.
pub fn clicks(slugs: Arc<[String]>) -> anyhow::Result<RequestWriter> {
    let visits = Visits::draw(u32::try_from(slugs.len())?)?;
    let (shares, mut random) = (VisitorShares::new(), SmallRng::seed_from_u64(SEED));
    let headers: Vec<String> = (0..VISITORS).map(|_| shares.headers(&mut random)).collect();
    Ok(Arc::new(move |number, buffer| {
        let slug = &slugs[visits.next() as usize - 1];
        let headers = &headers[turn(number, headers.len())];
        for part in [
            "GET /",
            slug,
            " HTTP/1.1\r\nHost: bench\r\n",
            headers,
            "\r\n",
        ] {
            buffer.extend_from_slice(part.as_bytes());
        }
    }))
}

/// Maps the number of a request to one of `count` items, in turn.
fn turn(number: u64, count: usize) -> usize {
    usize::try_from(number).expect("64 bits") % count
}
