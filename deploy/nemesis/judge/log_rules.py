"""Rules that the log has to keep at every position, whatever happened."""

import collections

from .links import expiry, stopped_by

# Longest time from the first request for an effect to the decision of the last retry.
DECIDED_S = 60


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
            balance += -amount if event["type"] in ("CreditsCharged", "CreditsRevoked") else amount
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


def changes_begin_at_the_state_before(evidence):
    """A change names the values before it, and changes something."""
    for link, events in evidence.of_link.items():
        states = evidence.states[link]
        for before, event, after in zip(states, events[1:], states[1:]):
            if before and after and (wrong := wrong_values(before, event, after)):
                yield f"version {event['version']} of {link} does not follow from the version before: {', '.join(wrong)}"


def wrong_values(before, event, after):
    """Returns what a change tells of a link that differs from the states before and after."""
    payload, kind = event["payload"], event["type"]
    if kind == "LinkDestinationChanged":
        told = {"previous_destination_url": (payload.get("previous_destination_url"), before["destination_url"])}
    elif kind == "LinkDetailsChanged":
        told = {name: (change.get("from"), before.get(name)) for name, change in payload["changes"].items()}
    else:
        told = {"disabled_by": (payload.get("disabled_by"), stopped_by(after))}
    return [name for name, (one, other) in told.items() if one != other] + ["nothing"] * (before == after)


def expiries_are_ahead(evidence):
    """An instant of expiry is ahead when somebody asks for it, and an address after the expiry has an expiry."""
    for link, events in evidence.of_link.items():
        known = None
        for event, state in zip(events, evidence.states[link]):
            name, instant = f"version {event['version']} of {link}", (state or {}).get("expires_at")
            if state and "expired_url" in state and not instant:
                yield f"{name} has an expired_url and no expires_at"
            invoked = evidence.invoked_at[event["id"]]
            if instant not in (None, known) and invoked and expiry(state) <= evidence.clock("command-api", invoked, invoked + DECIDED_S)[0]:
                yield f"{name} expires before somebody asked for it"
            known = instant


def external_ids_are_unique(evidence):
    """At each position an external id belongs to one link of the account that is not deleted."""
    owners, ids = {}, {}
    for event in evidence.log:
        if (link := event["subject"]) not in evidence.of_link:
            continue
        owners.pop(ids.pop(link, None), None)
        state = evidence.state(link, event["version"])
        if state and "external_id" in state:
            place = event["account"], state["external_id"]
            if place in owners:
                yield f"the external id {place[1]} belongs to {owners[place]} and to {link}"
            owners[place], ids[link] = link, place


RULES = [positions_are_contiguous, each_link_is_charged_once, balances_are_sums, slugs_are_unique, nothing_follows_a_deletion,
         changes_begin_at_the_state_before, expiries_are_ahead, external_ids_are_unique]
