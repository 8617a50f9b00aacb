"""Rules that the log has to keep at every position, whatever happened."""

import collections


def positions_are_contiguous(evidence):
    """Each shard has the positions from 1 to its head, and each stream the versions from 1."""
    last, versions = collections.Counter(), collections.Counter()
    for event in evidence.log:
        last[event["shard"]] += 1
        if event["position"] != last[event["shard"]]:
            yield f"shard {event['shard']} has position {event['position']} after {last[event['shard']] - 1}"
            last[event["shard"]] = event["position"]
        versions[event["subject"]] += 1
        if event["version"] != versions[event["subject"]]:
            yield f"{event['subject']} has version {event['version']} after {versions[event['subject']] - 1}"
    for shard, head in evidence.heads.items():
        if head != last[shard]:
            yield f"shard {shard} has the head {head}, and {last[shard]} events"


def each_link_is_charged_once(evidence):
    """The charge of a link directly follows its creation, and no link is charged twice."""
    charged, events = collections.Counter(), {(it["shard"], it["position"]): it for it in evidence.log}
    for event in evidence.log:
        if event["type"] == "CreditsCharged":
            charged[event["payload"]["link_id"]] += 1
        if event["type"] == "LinkCreated":
            following = events.get((event["shard"], event["position"] + 1))
            if not following or following["type"] != "CreditsCharged" or following["payload"]["link_id"] != event["subject"]:
                yield f"no charge follows the creation of {event['subject']}"
    for link, number in charged.items():
        if number != 1 or link not in evidence.of_link:
            yield f"{link} was charged {number} times, with {len(evidence.of_link[link])} events of its own"


def balances_are_sums(evidence):
    """At each position a balance is the sum so far and never negative; the end is the balance of the account."""
    for account, row in evidence.accounts.items():
        balance = 0
        for event in evidence.of_account[account]:
            amount = event["payload"].get("amount")
            if amount is None:
                continue
            balance += -amount if event["type"] == "CreditsCharged" else amount
            if balance < 0 or event["payload"]["balance_after"] != balance:
                yield f"{account} has {balance} after {event['id']}, which says {event['payload']['balance_after']}"
        if row["balance"] != balance:
            yield f"{account} has the balance {row['balance']}, and the events add up to {balance}"


def slugs_are_unique(evidence):
    """A slug belongs to one link for ever, in any letter case."""
    owners = {}
    for event in evidence.log:
        if event["type"] == "LinkCreated":
            owner = owners.setdefault(event["payload"]["slug"].lower(), event["subject"])
            if owner != event["subject"]:
                yield f"the slug {event['payload']['slug']} belongs to {owner} and to {event['subject']}"


def nothing_follows_a_deletion(evidence):
    """A deletion is the last event of a link."""
    for link, events in evidence.of_link.items():
        for event in events[:-1]:
            if event["type"] == "LinkDeleted":
                yield f"{link} has events after its deletion"


RULES = [positions_are_contiguous, each_link_is_charged_once, balances_are_sums, slugs_are_unique, nothing_follows_a_deletion]
