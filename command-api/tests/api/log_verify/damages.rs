//! Damages of a log, and the findings of `log verify`.

/// Position of a finding, and a part of its text.
pub(super) type Finding = (Option<i64>, &'static str);

/// Damages as SQL, each with its findings in order. `$set … $at = 5` changes the event at position 5
/// of the account's shard.
pub(super) const DAMAGES: &[(&str, &[Finding])] = &[
    // Missing or misplaced events.
    (
        "DELETE FROM event_store.events $at = 17",
        &[
            (Some(17), "the event at this position is missing"),
            (Some(18), ": version 10 follows version 8"),
        ],
    ),
    (
        "DELETE FROM event_store.events $at IN (7, 8)",
        &[
            (
                Some(6),
                "segment 2 (positions 6 to 10) is not what was sealed",
            ),
            (Some(7), "the events from this position to 8 are missing"),
            (Some(10), ": balance_after is 996 instead of 998 - 1"),
            (Some(10), ": version 6 follows version 4"),
        ],
    ),
    (
        "DELETE FROM event_store.events $at = 19",
        &[
            (
                None,
                "its row has version 11, but its last event has version 10",
            ),
            (
                None,
                "its last event is at position 18, its counter is at 19",
            ),
            (Some(19), "the event at this position is missing"),
        ],
    ),
    (
        "UPDATE event_store.log_shards SET head = 18 WHERE shard = $shard",
        &[
            (
                None,
                "its row has version 11, but its last event has version 10",
            ),
            (
                None,
                "its last event is at position 19, its counter is at 18",
            ),
        ],
    ),
    (
        "DELETE FROM event_store.events $at > 13;
         UPDATE event_store.log_shards SET head = 13 WHERE shard = $shard",
        &[
            (
                None,
                "its row has version 11, but its last event has version 7",
            ),
            (Some(5), "the expiry of lnk_"),
            (Some(5), "the external id of lnk_"),
            (
                Some(11),
                "segment 3 is sealed up to position 15, but the log ends at 13",
            ),
        ],
    ),
    (
        "$set position = 1000 $at = 17; $set position = 17 $at = 18; $set position = 18 $at = 1000",
        &[
            (Some(17), ": version 10 follows version 8"),
            (Some(18), ": version 9 follows version 10"),
            (Some(19), ": version 11 follows version 9"),
        ],
    ),
    (
        "$set position = 1000 $at = 3; $set position = 3 $at = 4; $set position = 4 $at = 1000",
        &[
            (
                Some(1),
                "segment 1 (positions 1 to 5) is not what was sealed",
            ),
            (Some(3), " should stand right before this CreditsCharged"),
            (Some(5), ", created right before, should stand here"),
        ],
    ),
    (
        "$set shard = $shard, position = position + 19 WHERE account_id = $other;
         UPDATE event_store.accounts SET shard = $shard WHERE account_id = $other;
         UPDATE event_store.slugs SET shard = $shard;
         DELETE FROM event_store.external_ids WHERE account_id = $other;
         DELETE FROM event_store.link_expiries WHERE account_id = $other;
         UPDATE event_store.log_shards SET head = 23 WHERE shard = $shard;
         UPDATE event_store.log_shards SET head = 0 WHERE shard <> $shard",
        &[
            (
                None,
                "its row names this shard, but the account belongs to shard ",
            ),
            (Some(22), "the expiry of lnk_"),
            (Some(22), "the external id of lnk_"),
        ],
    ),
    (
        "$set shard = $shard, position = position + 19 WHERE account_id = $other;
         DELETE FROM event_store.accounts WHERE account_id = $other;
         UPDATE event_store.slugs SET shard = $shard;
         DELETE FROM event_store.external_ids WHERE account_id = $other;
         DELETE FROM event_store.link_expiries WHERE account_id = $other;
         UPDATE event_store.log_shards SET head = 23 WHERE shard = $shard;
         UPDATE event_store.log_shards SET head = 0 WHERE shard <> $shard",
        &[
            (Some(20), " belongs to shard "),
            (Some(22), "the expiry of lnk_"),
            (Some(22), "the external id of lnk_"),
        ],
    ),
    // Changed events.
    (
        r#"$set payload = replace(payload::text, '"test"', '"y"')::json $at = 2"#,
        &[(
            Some(1),
            "segment 1 (positions 1 to 5) is not what was sealed",
        )],
    ),
    (
        "$set metadata = '{ }' $at = 8",
        &[(
            Some(6),
            "segment 2 (positions 6 to 10) is not what was sealed",
        )],
    ),
    (
        "$set idempotency_key = 'create:x', fingerprint = '' $at = 17",
        &[(
            Some(17),
            "an event of this type has no such idempotency key",
        )],
    ),
    (
        "$set payload = '{}' $at = 16",
        // The balance is unknown after this event.
        &[(
            Some(16),
            "the event can't be read: malformed payload of `CreditsAdjusted`: missing field",
        )],
    ),
    (
        "$set payload = '{}' $at = 6; DELETE FROM event_store.log_segments",
        // The next balance is accepted, and later balances are checked against it.
        &[(
            Some(6),
            "the event can't be read: malformed payload of `CreditsCharged`: missing field",
        )],
    ),
    (
        "DELETE FROM event_store.log_segments;
         $set payload = (payload::jsonb || '{\"low_balance\": 999}')::json $at = 6",
        // The account has no thresholds.
        &[(Some(6), ": low_balance is 999 instead of absent")],
    ),
    (
        "DELETE FROM event_store.log_segments;
         $set payload = (payload::jsonb || '{\"low_balance_at\": [999]}')::json $at = 1",
        // The balance falls from 999 to 998 at position 6.
        &[
            (Some(1), "come to: low_balance_at"),
            (Some(6), ": low_balance is absent instead of 999"),
            (Some(17), "come to: low_balance_at"),
            (Some(18), "come to: low_balance_at"),
            (
                Some(19),
                ": its row at version 11 is not what its events come to: low_balance_at",
            ),
            (Some(19), "come to: low_balance_at"),
        ],
    ),
    (
        "$set type = 'AccountLost' $at = 18",
        &[(
            Some(18),
            "the event can't be read: unknown event `AccountLost` version 1",
        )],
    ),
    (
        "$set metadata = '7' $at = 18",
        &[(Some(18), "the metadata can't be read: ")],
    ),
    (
        "$set payload = replace(payload::text, '988', '989')::json $at = 16",
        &[
            (Some(16), ": balance_after is 989 instead of 995 + -7"),
            (Some(17), "come to: balance 988 instead of 989"),
            (Some(18), "come to: balance 988 instead of 989"),
            (
                Some(19),
                ": its row has the balance 988 at version 11, its events come to 989",
            ),
            (Some(19), "come to: balance 988 instead of 989"),
        ],
    ),
    (
        "$set stream_id = gen_random_uuid() $at = 18",
        &[
            (Some(18), ": version 10 is the first of its stream"),
            (Some(18), "the payload is about acc_"),
            (Some(19), ": version 11 follows version 9"),
        ],
    ),
    (
        "DELETE FROM event_store.log_segments; $set version = 9 $at = 14",
        &[
            (Some(14), ": version 9 follows version 2"),
            (Some(15), ": version 4 follows version 9"),
        ],
    ),
    (
        "DELETE FROM event_store.log_segments;
         $set metadata = replace(metadata::text, 'true', 'false')::json $at = 14",
        &[
            (
                Some(14),
                ": what the link is after it, by its metadata, is not what its events come",
            ),
            (
                Some(15),
                ": what the link is after it, by its metadata, is not what its events come",
            ),
        ],
    ),
    (
        "DELETE FROM event_store.log_segments;
         $set metadata = replace(metadata::text, '\"slug\":\"', '\"slug\":\"x')::json $at = 13",
        &[
            (
                Some(13),
                ": what the link is after it, by its metadata, is not what its events come",
            ),
            (
                Some(14),
                ": what the link is after it, by its metadata, is not what its events come",
            ),
        ],
    ),
    (
        "DELETE FROM event_store.log_segments;
         $set metadata = replace(metadata::text, '_at\":\"2', '_at\":\"1')::json $at = 13",
        &[
            (
                Some(13),
                ": what the link is after it, by its metadata, is not what its events come",
            ),
            (
                Some(14),
                ": what the link is after it, by its metadata, is not what its events come",
            ),
        ],
    ),
    (
        "DELETE FROM event_store.log_segments;
         $set payload = (payload::jsonb || '{\"disabled_by\": \"owner\"}')::json $at = 14",
        &[(
            Some(14),
            ": what the link is after it, by its metadata, is not what its events come",
        )],
    ),
    (
        "DELETE FROM event_store.log_segments; $set metadata = '{}' $at = 14",
        &[(
            Some(14),
            ": the metadata don't say what the link is after it",
        )],
    ),
    (
        "DELETE FROM event_store.log_segments;
         $set payload = replace(payload::text, '.com/new', '.com/old')::json $at = 13",
        &[(
            Some(13),
            ": what the link is after it, by its metadata, is not what its events come",
        )],
    ),
    // Changed accounts.
    (
        "$set metadata = replace(metadata::text, 'suspended', 'active')::json $at = 17",
        &[(
            Some(17),
            ": what the account is after it, by its metadata, is not what its events come to: status",
        )],
    ),
    (
        "DELETE FROM event_store.log_segments; $set metadata = '{}' $at = 1",
        &[(
            Some(1),
            ": the metadata don't say what the account is after it",
        )],
    ),
    // Changed segments.
    (
        "UPDATE event_store.log_segments SET sha256 = sha256(sha256) WHERE number = 2",
        &[
            (
                Some(6),
                "segment 2 (positions 6 to 10) is not what was sealed",
            ),
            (
                Some(11),
                "segment 3 (positions 11 to 15) is not what was sealed",
            ),
        ],
    ),
    (
        "DELETE FROM event_store.log_segments WHERE number = 2",
        &[
            (Some(11), "segment 2 is missing before segment 3"),
            (
                Some(11),
                "segment 3 (positions 11 to 15) is not what was sealed",
            ),
        ],
    ),
    (
        "UPDATE event_store.log_segments SET epoch = 9 WHERE number = 3",
        &[
            (
                Some(11),
                "segment 3 (positions 11 to 15) is not what was sealed",
            ),
            (
                Some(11),
                "segment 3 was sealed in epoch 9, outside of 1 (previous segment) to 1 (log)",
            ),
        ],
    ),
    // Rows that differ from the log.
    (
        "UPDATE event_store.accounts SET balance = balance + 1 WHERE account_id = $account",
        &[(
            Some(19),
            ": its row has the balance 989 at version 11, its events come to 988",
        )],
    ),
    (
        "UPDATE event_store.accounts SET version = 12 WHERE account_id = $account",
        &[(
            None,
            ": its row has version 12, but its last event has version 11",
        )],
    ),
    (
        "UPDATE event_store.accounts SET version = 9 WHERE account_id = $account",
        &[(
            Some(18),
            ": its row has version 9, without this event, which came before the row was read",
        )],
    ),
    (
        "UPDATE event_store.accounts SET status = 'active' WHERE account_id = $account",
        &[(
            Some(19),
            ": its row at version 11 is not what its events come to: status, Active instead of",
        )],
    ),
    (
        "UPDATE event_store.accounts SET name = 'x' WHERE account_id = $account",
        &[(
            Some(19),
            ": its row at version 11 is not what its events come to: name",
        )],
    ),
    (
        "UPDATE event_store.accounts SET external_id = 'x' WHERE account_id = $account",
        &[(
            Some(19),
            ": its row at version 11 is not what its events come to: external id",
        )],
    ),
    (
        "UPDATE event_store.accounts SET low_balance_at = '{10}' WHERE account_id = $account",
        &[(
            Some(19),
            ": its row at version 11 is not what its events come to: low_balance_at",
        )],
    ),
    (
        "UPDATE event_store.accounts SET creation_key = 'x' WHERE account_id = $account",
        &[(Some(19), ": its row has another creation_key than")],
    ),
    (
        "INSERT INTO event_store.api_keys
             (key_id, account_id, sha256, prefix, name, scopes, created_at)
         VALUES (gen_random_uuid(), $account, '', 'llk_made', 'made up', '{}', now())",
        &[(None, ") that no event explains")],
    ),
    (
        "INSERT INTO event_store.webhooks
             (webhook_id, account_id, url, types, enabled, in_order, all_accounts, secret_key_id,
              secret_generation, created_at, updated_at)
         VALUES (gen_random_uuid(), $account, 'https://hooks.example/', '{}', true, false, false,
                 'made-up', 1, now(), now())",
        &[(None, ") that no event explains")],
    ),
    (
        "DELETE FROM event_store.accounts WHERE account_id = $account",
        &[(Some(1), "there is no account acc_")],
    ),
    (
        "UPDATE event_store.slugs SET link_id = gen_random_uuid()
         WHERE link_id = (SELECT stream_id FROM event_store.events $at = 5)",
        &[(Some(5), "is not given to lnk_")],
    ),
    (
        "DELETE FROM event_store.slugs
         WHERE link_id = (SELECT stream_id FROM event_store.events $at = 5)",
        &[(Some(5), "is not given to lnk_")],
    ),
    (
        "DELETE FROM event_store.external_ids
         WHERE link_id = (SELECT stream_id FROM event_store.events $at = 7)",
        &[(Some(7), "the external id of lnk_")],
    ),
    (
        "UPDATE event_store.external_ids SET link_id = gen_random_uuid()
         WHERE link_id = (SELECT stream_id FROM event_store.events $at = 7)",
        &[(Some(7), "the external id of lnk_")],
    ),
    (
        "INSERT INTO event_store.external_ids VALUES ($account, 'made-up', gen_random_uuid())",
        &[(None, ") that no event explains")],
    ),
    (
        "DELETE FROM event_store.link_expiries
         WHERE link_id = (SELECT stream_id FROM event_store.events $at = 7)",
        &[(Some(7), "the expiry of lnk_")],
    ),
    (
        "UPDATE event_store.link_expiries SET expires_at = expires_at + interval '1 ms'
         WHERE link_id = (SELECT stream_id FROM event_store.events $at = 7)",
        &[(Some(7), "the expiry of lnk_")],
    ),
    (
        "INSERT INTO event_store.link_expiries VALUES (gen_random_uuid(), $account, now())",
        &[(None, ") that no event explains")],
    ),
];
