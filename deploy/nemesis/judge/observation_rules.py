"""Rules of observations, the events of which no request is the cause: an expiry, a first click and each counted click are in
the log once."""

import collections
import datetime
import json

from .evidence import CLOCK_ERROR_S, text_id
from .links import FOREVER, expiry
from .outside_rules import clicks_max
from .subscriber_rules import webhooks

# Longest time after an expiry in which a change or a deletion can still come before the event.
OBSERVED_S = 300
LINKS_MAX, MINUTE_S, KINDS = 100, 60, ("clicks", "bots")


def observed(evidence, kind):
    """Returns the events of a type by the link that each is about."""
    found = collections.defaultdict(list)
    for event in evidence.log:
        if event["type"] == kind:
            found[event["payload"]["link_id"]].append(event)
    return found


def expiries(evidence):
    """Yields each expiry that a link has had, with the event that set the expiry, and the event that ended it or None."""
    for link, states in evidence.states.items():
        begin, expires_at = None, None
        for event, state in zip(evidence.of_link[link], states):
            now = (state or {}).get("expires_at")
            if now != expires_at:
                if begin:
                    yield link, expires_at, begin, event
                begin, expires_at = event if now else None, now
        if begin:
            yield link, expires_at, begin, None


def expiries_are_observed_once(evidence):
    """Each expiry that passed has one event while the link has the expiry, and not before it passes. An expiry that was
    changed, or whose link was deleted, soon after it passed may have none."""
    left = observed(evidence, "LinkExpired")
    for link, expires_at, begin, end in expiries(evidence):
        instant, name = expiry({"expires_at": expires_at}), f"the expiry of {link} at {expires_at}"
        last = end["position"] if end else FOREVER
        found = [it for it in left[link] if begin["position"] < it["position"] < last and it["account"] == begin["account"]
                 and expiry(it["payload"]) == instant]
        left[link] = [it for it in left[link] if it not in found]
        if len(found) > 1:
            yield f"{name} has {len(found)} events"
        if not found and instant <= demanded_until(evidence, end):
            yield f"{name} has no event"
        for event in found:
            if event["recorded_s"] < instant:
                yield f"{name} has the event {event['id']} before it passed"
    for link, events in left.items():
        for event in events:
            yield f"{link} does not have the expiry at {event['payload']['expires_at']} that {event['id']} tells"


def demanded_until(evidence, end):
    """Returns the time up to which an expiry must have an event if it ended by an event, or at the end of the run."""
    if end is None:
        return evidence.facts.get("observed_until_s", 0)
    asked = evidence.invoked_at[end["id"]]
    return evidence.facts.get("wall_s", 0) + asked - OBSERVED_S if asked is not None else 0


def first_clicks_are_observed_once(evidence):
    """Each link with counted clicks of humans has one event about the first one, at the time of a visit; no link has two."""
    found, visits = observed(evidence, "LinkFirstClicked"), collections.defaultdict(list)
    for operation in evidence.of["redirect"]:
        visits[operation["link"]].append(operation)
    for link, events in found.items():
        if len(events) > 1:
            yield f"{link} has {len(events)} first clicks"
        for event in events:
            clicked_s = seconds(event["payload"]["clicked_at"])
            if not evidence.of_link[link] or evidence.of_link[link][0]["account"] != event["account"]:
                yield f"{event['account']} has no link {link}, which {event['id']} calls clicked"
            elif not any(can_be_click(evidence, it, clicked_s) for it in visits[link]):
                yield f"nobody visited {link} at {event['payload']['clicked_at']}, the time of its first click"
    for link, totals in click_totals(evidence).items():
        if totals["clicks"] and link not in found:
            yield f"{link} has {totals['clicks']} clicks, and no first one"


def can_be_click(evidence, operation, clicked_s):
    """Returns true if a visit can be a click at a time. One that the client gave up can become a click later."""
    earliest, latest = evidence.clock_of_redirect(operation)
    status, is_retried = operation["status"], operation["is_retried"]
    until = latest if status == 302 and not is_retried else FOREVER
    return (is_retried or status in (302, 503, 504, None)) and earliest <= clicked_s <= until


def clicks_by_minute_add_up(evidence):
    """The events of clicks by minute of an account add up to its statistics, from the creation of the webhook that names
    `link.clicks`; without such a webhook there are none."""
    wanting = {webhook.account: webhook for webhook in webhooks(evidence) if "link.clicks" in webhook.types}
    sums = {kind: collections.Counter() for kind in KINDS}
    for event in evidence.log:
        if event["type"] == "LinksClicked":
            if event["account"] not in wanting or not wanting[event["account"]].wants(event):
                yield f"no webhook wants {event['id']} of {event['account']}"
            if fault := fault_of_minute(evidence, event):
                yield f"{event['id']} of {event['account']} has {fault}"
            for clicks in event["payload"]["links"]:
                for kind in KINDS:
                    sums[kind][clicks["link_id"]] += clicks[kind]
    ahead = {text_id("lnk", it["link"]): it for it in evidence.facts.get("minutes_left", [])}
    others = clicks_of_no_minute(evidence, wanting)
    for link, totals in click_totals(evidence).items():
        if not evidence.of_link[link] or evidence.of_link[link][0]["account"] not in wanting:
            continue
        for kind in KINDS:
            found = sums[kind][link]
            missing = totals[kind] - found - ahead.get(link, {}).get(kind, 0)
            if found > totals[kind] or missing > others[link]:
                yield (f"{link} has {totals[kind]} {kind}, and events with {found}; at most {others[link]} were made before "
                       "the webhook or by a clock that was behind")


def fault_of_minute(evidence, event):
    """Returns what is wrong with an event of clicks by minute, or None."""
    links, minute = event["payload"]["links"], event["payload"]["minute"]
    ids = {it["link_id"] for it in links}
    if not 1 <= len(links) <= LINKS_MAX or len(ids) != len(links):
        return f"{len(links)} entries of {len(ids)} links"
    if seconds(minute) % MINUTE_S:
        return f"the minute {minute}"
    if any(it["clicks"] < 0 or it["bots"] < 0 or it["clicks"] + it["bots"] == 0 for it in links):
        return "a link without clicks"
    foreign = [link for link in ids if not evidence.of_link[link] or evidence.of_link[link][0]["account"] != event["account"]]
    return f"links of other accounts: {foreign}" if foreign else None


def clicks_of_no_minute(evidence, wanting):
    """Returns how many clicks of each link may be in no event: those before the webhook of the account, and those of clocks
    that were behind, which are too old to be counted by minute."""
    created = {it["account"]: it["end"] for it in reversed(evidence.of["webhook"])
               if it["status"] == 201 and it["account"] in wanting and it["client"] == wanting[it["account"]].client}
    found = collections.Counter()
    for operation in evidence.of["redirect"]:
        link, (earliest, _) = operation["link"], evidence.clock_of_redirect(operation)
        begun = evidence.facts.get("wall_s", 0) + operation["start"] - CLOCK_ERROR_S
        account = evidence.of_link[link][0]["account"] if evidence.of_link[link] else None
        if earliest < begun or operation["start"] <= created.get(account, FOREVER):
            found[link] += clicks_max(operation, operation["status"] == 302)
    return found


def click_totals(evidence):
    """Returns the counted clicks of the links whose statistics the last look has read."""
    last = {it["link"]: it for it in evidence.of["clicks"]}
    return {link: json.loads(it["body"])["totals"] for link, it in last.items() if it["status"] == 200}


def seconds(instant):
    return datetime.datetime.fromisoformat(instant).timestamp()


RULES = [expiries_are_observed_once, first_clicks_are_observed_once, clicks_by_minute_add_up]
