//! The HTTP requests of the loads.

use std::{net::SocketAddr, sync::Arc};

use linkledger_core::clock;
use linkledger_http::route_table;
use rand::{SeedableRng as _, rngs::SmallRng};
use uuid::{Builder, Uuid};

use crate::{
    accounts::LoadAccount,
    load::Requests,
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
pub fn creates(accounts: &[LoadAccount]) -> Requests {
    let first = u64::from(u32::from_ne_bytes(clock::random_bytes()));
    creates_from(accounts, first)
}

/// Makes requests like [`creates`], from the first account on, as [`lists`] does.
pub fn creates_in_step(accounts: &[LoadAccount]) -> Requests {
    creates_from(accounts, 0)
}

fn creates_from(accounts: &[LoadAccount], first: u64) -> Requests {
    let accounts = accounts.to_vec();
    Requests::new(201, move |number, buffer| {
        let account = &accounts[turn(first + number, accounts.len())];
        let body = format!(r#"{{"destination_url":"https://example.com/some/path?n={number}"}}"#);
        let key = format!("Idempotency-Key: {}\r\n", new_key());
        post(account, (route_table::LINKS, &key, &body), buffer);
    })
}

/// Makes requests that create `items` links each in a batch, with new idempotency keys, for the
/// accounts in turn.
pub fn batches(accounts: &[LoadAccount], items: usize) -> Requests {
    let accounts = accounts.to_vec();
    Requests::new(207, move |number, buffer| {
        let account = &accounts[turn(number, accounts.len())];
        let items = (0..items).map(|item| {
            format!(
                r#"{{"idempotency_key":"{}","destination_url":"https://example.com/some/path?n={number}.{item}"}}"#,
                new_key()
            )
        });
        let body = format!(r#"{{"items":[{}]}}"#, items.collect::<Vec<_>>().join(","));
        post(account, (route_table::LINK_BATCH, "", &body), buffer);
    })
}

/// Makes requests that create a webhook for each account in turn, at a receiver; the number of the request is the path.
pub fn webhooks(accounts: &[LoadAccount], receiver: SocketAddr) -> Requests {
    let accounts = accounts.to_vec();
    Requests::new(201, move |number, buffer| {
        let account = &accounts[turn(number, accounts.len())];
        let body = format!(r#"{{"url":"http://{receiver}/{number}"}}"#);
        post(account, (route_table::WEBHOOKS, "", &body), buffer);
    })
}

fn new_key() -> Uuid {
    Builder::from_random_bytes(clock::random_bytes()).into_uuid()
}

fn post(account: &LoadAccount, (path, header, body): (&str, &str, &str), buffer: &mut Vec<u8>) {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n{header}Content-Length: {}\r\n\r\n{body}",
        account.api_key.reveal(),
        body.len(),
    );
    buffer.extend_from_slice(request.as_bytes());
}

/// Makes requests for the newest page of links, for the accounts in turn.
pub fn lists(accounts: &[LoadAccount], limit: usize) -> Requests {
    let lists = accounts.iter().map(|account| list(account, limit, ""));
    in_turn(200, lists.map(String::into_bytes).collect())
}

/// Makes these requests in turn, which are answered with this status.
pub fn in_turn(status: u16, requests: Vec<Vec<u8>>) -> Requests {
    Requests::new(status, move |number, buffer| {
        buffer.extend_from_slice(&requests[turn(number, requests.len())]);
    })
}

/// Formats a request for a page of links of the account; `query` has further parameters, like
/// `cursor=…`.
pub fn list(account: &LoadAccount, limit: usize, query: &str) -> String {
    let separator = if query.is_empty() { "" } else { "&" };
    let links = route_table::LINKS;
    get(account, &format!("{links}?limit={limit}{separator}{query}"))
}

/// Formats a request to read a resource of the account.
pub fn get(account: &LoadAccount, path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        account.api_key.reveal()
    )
}

/// Makes visits to these short links in turn.
pub fn visits(slugs: Arc<[String]>) -> Requests {
    Requests::new(302, move |number, buffer| {
        visit(&slugs[turn(number, slugs.len())], "", buffer);
    })
}

/// Formats a visit to a short link, with further headers.
pub fn visit(slug: &str, headers: &str, buffer: &mut Vec<u8>) {
    for part in [
        "GET /",
        slug,
        " HTTP/1.1\r\nHost: localhost\r\n",
        headers,
        "\r\n",
    ] {
        buffer.extend_from_slice(part.as_bytes());
    }
}

/// Makes visits to any of these short links, a few of which get most visits, with the headers of
/// browsers and bots.
///
/// # Errors
/// Returns an error if there are no links.
pub fn clicks(slugs: Arc<[String]>) -> anyhow::Result<Requests> {
    let visits = Visits::draw(u32::try_from(slugs.len())?)?;
    let (shares, mut random) = (VisitorShares::new(), SmallRng::seed_from_u64(SEED));
    let headers: Vec<String> = (0..VISITORS).map(|_| shares.headers(&mut random)).collect();
    Ok(Requests::new(302, move |number, buffer| {
        let slug = &slugs[visits.next() as usize - 1];
        visit(slug, &headers[turn(number, headers.len())], buffer);
    }))
}

/// Maps the number of a request to one of `count` items, in turn.
fn turn(number: u64, count: usize) -> usize {
    usize::try_from(number).expect("64 bits") % count
}

#[cfg(test)]
mod tests {
    use linkledger_core::clock::{Clock as _, SystemClock};
    use linkledger_core::{api_key::ApiKey, clock::new_uuid, id::AccountId};

    use super::*;

    #[test]
    fn creates_in_step_and_lists_are_of_one_account() {
        let account = || LoadAccount {
            account_id: AccountId::from_uuid(new_uuid(SystemClock.now())),
            api_key: ApiKey::generate(),
        };
        let accounts = [account(), account(), account()];
        let (creates, lists) = (creates_in_step(&accounts), lists(&accounts, 1));
        for number in 0..7 {
            let (mut create, mut list) = (Vec::new(), Vec::new());
            (creates.write)(number, &mut create);
            (lists.write)(number, &mut list);
            assert_eq!(authorization(&create), authorization(&list));
        }
    }

    fn authorization(request: &[u8]) -> String {
        let request = String::from_utf8_lossy(request);
        let line = request
            .lines()
            .find(|line| line.starts_with("Authorization: "));
        line.expect("each request has a key").to_owned()
    }
}
