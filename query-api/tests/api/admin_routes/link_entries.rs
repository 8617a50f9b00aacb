//! Entries of the ledger that one link has: its charge, and its refund.

use linkledger_core::{
    id::{AccountId, EntryId, LinkId},
    shard::Shard,
};
use linkledger_testing as testing;
use linkledger_testing::events;
use serde_json::{Value, json};

use super::{ACCOUNTS, Fixture, UNKNOWN_ACCOUNT, UNKNOWN_LINK, ids};

fn path(account_id: AccountId, link_id: LinkId) -> String {
    format!("{ACCOUNTS}/{account_id}/entries?link_id={link_id}")
}

/// Returns the entries of a link in the whole ledger of the account.
async fn among_all(fixture: &Fixture, account_id: AccountId, link_id: LinkId) -> Vec<Value> {
    let path = format!("{ACCOUNTS}/{account_id}/entries");
    let (mut entries, _) = fixture.items(&path).await;
    entries.retain(|entry| entry["link_id"] == json!(link_id));
    entries
}

#[tokio::test]
async fn link_has_its_charge_and_its_refund() {
    let fixture = Fixture::new().await;
    let pool = fixture.pool();
    let account_id = fixture.account("Example Ltd", None).await;
    let links = [("abc", "https://a.example/"), ("def", "https://a.example/")];
    let links = testing::append_links(pool, account_id, &links).await;
    let (link, other) = (&links[0].link, links[1].link.link_id);
    let path = path(account_id, link.link_id);

    let (entries, _) = fixture.items(&path).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["type"], "charge");
    assert_eq!(entries[0].get("reversed_by"), None);
    let charge: EntryId = ids(&entries)[0].parse().unwrap();
    assert_eq!(entries, among_all(&fixture, account_id, link.link_id).await);

    let changes = [
        events::granted(account_id, 10, 15),
        events::deleted(link),
        events::refunded((charge, &links[0].charge), 15),
        events::granted(account_id, 10, 26),
    ];
    testing::append_events(pool, account_id, &changes).await;
    let expected = among_all(&fixture, account_id, link.link_id).await;
    let types: Vec<&Value> = expected.iter().map(|entry| &entry["type"]).collect();
    assert_eq!(types, ["refund", "charge"]);
    assert_eq!(expected[0]["refunds"], json!(charge));
    assert_eq!(expected[1]["reversed_by"], expected[0]["id"]);
    for (limit, pages) in [(1, 2), (2, 1), (100, 1)] {
        let found = fixture.items(&format!("{path}&limit={limit}")).await;
        assert_eq!(found, (expected.clone(), pages), "{limit}");
    }
    let of_other = self::path(account_id, other);
    let (entries, _) = fixture.items(&of_other).await;
    assert_eq!(entries, among_all(&fixture, account_id, other).await);
    assert_eq!(entries.len(), 1);

    let page = fixture.get(&format!("{path}&limit=1")).await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let of_all = format!("{ACCOUNTS}/{account_id}/entries?");
    for list in [of_other, of_all] {
        let answer = fixture.get(&format!("{list}&cursor={cursor}")).await;
        answer.assert_problem(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn link_of_another_account_is_404() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("Example Ltd", None).await;
    let links = [("abc", "https://a.example/")];
    let links = testing::append_links(fixture.pool(), account_id, &links).await;
    let link_id = links[0].link.link_id;
    let neighbour = testing::account_of(fixture.pool(), Shard::of(account_id), 7).await;
    for path in [
        path(neighbour, link_id),
        path(account_id, UNKNOWN_LINK.parse().unwrap()),
        // The stream of an account is no link.
        path(account_id, LinkId::from_uuid(account_id.uuid())),
    ] {
        fixture
            .get(&path)
            .await
            .assert_problem(404, "link_not_found");
    }
    let answer = fixture
        .get(&path(UNKNOWN_ACCOUNT.parse().unwrap(), link_id))
        .await;
    answer.assert_problem(404, "account_not_found");
    for id in ["", "abc", "lnk_1", UNKNOWN_ACCOUNT] {
        let path = format!("{ACCOUNTS}/{account_id}/entries?link_id={id}");
        let answer = fixture.get(&path).await;
        answer.assert_problem(400, "invalid_parameter");
        let error = &answer.json()["errors"][0];
        assert_eq!(
            [&error["parameter"], &error["code"]],
            ["link_id", "id_invalid"]
        );
    }
}
