"""Rules of reads: never older than promised, never from the future, never 404 for what was answered."""

import collections
import json

from .evidence import etag_version
from .links import meets, redirects, shown, shown_in

# Time in which each process redirects by a change (docs/api.md#consistency).
STALE_S_MAX = 1
# Part of it that a process needs besides the staleness of its cache (REDIRECT_STALENESS_MAX_MS).
VISIBLE_S_MAX = 0.5
# Time in which a process notices that a fault is over.
NOTICE_S_MAX = 3


def answers_show_versions_of_the_log(evidence):
    """An answer with a link shows exactly what its version has in the log, and no version before its invocation."""
    for operation in (*evidence.of["create"], *evidence.of["patch"], *evidence.of["get"]):
        if operation["status"] not in (200, 201):
            continue
        body = json.loads(operation["body"])
        link, version = body["id"], 1 if operation["op"] == "create" else etag_version(operation)
        state, name = evidence.state(link, version), f"{operation['op']} {operation['id']} of {link}"
        if state is None or shown_in(body) != shown(state):
            yield f"{name} shows {shown_in(body)}, and not what version {version} has: {state and shown(state)}"
        elif (evidence.invoked_at[evidence.of_link[link][version - 1]["id"]] or 0) > operation["end"]:
            yield f"{name} shows version {version} before it was asked for"


def reads_include_their_token(evidence):
    """A read with the token of a write shows this write or a later one."""
    tokens = evidence.tokens()
    for operation in evidence.of["get"]:
        event = tokens.get(operation["token"])
        if operation["status"] == 200 and event and event["subject"] == operation["link"]:
            if etag_version(operation) < event["version"]:
                yield f"read {operation['id']} of {operation['link']} is older than version {event['version']} of its token"
    for operation in evidence.of["credits"]:
        if operation["status"] == 200:
            balance, allowed = json.loads(operation["body"])["balance"], balances_from(evidence, operation, tokens)
            if balance not in allowed:
                yield f"read {operation['id']} shows the balance {balance} of {operation['account']}, which its token excludes"


def balances_from(evidence, operation, tokens):
    """Returns the balances that an account has had at the position of a token or later."""
    event, allowed = tokens.get(operation["token"]), [0]
    # A creation and its charge become visible together.
    position = 0 if event is None else event["position"] + (event["type"] == "LinkCreated")
    for found in evidence.of_account[operation["account"]]:
        if "balance_after" in found["payload"]:
            if found["position"] <= position:
                allowed = []
            allowed.append(found["payload"]["balance_after"])
    return allowed


def created_links_are_never_missing(evidence):
    """A link whose create was answered is 404 only after somebody asked for its deletion; a redirect is never 404."""
    for operation in evidence.of["get"]:
        if operation["status"] == 404 and evidence.delete_invoked_at[operation["link"]] > operation["end"]:
            yield f"read {operation['id']} of {operation['link']} was answered 404"
    for operation in evidence.of["redirect"]:
        if operation["status"] == 404:
            yield f"redirect {operation['id']} of {operation['link']} was answered 404"


def may_be_suspended(evidence, operation):
    """Returns true if the redirects of a link's account may have been stopped before the end of a request."""
    events = evidence.of_link[operation["link"]]
    return any(it.get("stops_redirects") and it["account"] == events[0]["account"] and it["start"] <= operation["end"]
               for it in evidence.of["operate"] if events)


def redirect_versions(evidence, operation):
    """Returns the versions that an answer of the short host can be of: those with this answer at this time, by the clock
    of the process, that somebody had asked for."""
    link, answer = operation["link"], (operation["status"], operation["headers"].get("Location"))
    clock = evidence.clock_of_redirect(operation)
    return [event["version"] for event, state in zip(evidence.of_link[link], evidence.states.get(link, []))
            if answer in redirects(state, clock) and (evidence.invoked_at[event["id"]] or 0) <= operation["end"]]


def redirects_are_of_a_version(evidence):
    """A redirect leads to the destination of a version of the link before its expiry, and to the address after the expiry
    from then on; 410 only if the link has expired, was deleted or disabled, or its account was stopped."""
    for operation in evidence.of["redirect"]:
        is_stopped = operation["status"] == 410 and may_be_suspended(evidence, operation)
        if operation["status"] in (302, 410) and not is_stopped and not redirect_versions(evidence, operation):
            yield (f"redirect {operation['id']} of {operation['link']} was answered {operation['status']} "
                   f"{operation['headers'].get('Location')}, as no version of the link is at this time")


def is_of_the_read_tables(evidence, operation):
    """Returns false for an answer that the log may have decided, because the read tables did not have the link yet: a
    410 without an earlier 302. Such a 410 is ahead of the read tables, and a 302 may follow it while they lag."""
    return operation["status"] == 302 or evidence.first_redirect_ended_at[operation["link"]] < operation["start"]


def redirects_are_never_older(evidence):
    """A redirect is never older than an earlier answer of the same process, nor than an answer of any process a
    second ago; during a fault, than one before the longest staleness that the stack permits."""
    of_link = collections.defaultdict(list)
    for operation in evidence.of["redirect"]:
        if operation["status"] == 302 or operation["status"] == 410 and not may_be_suspended(evidence, operation):
            versions = redirect_versions(evidence, operation)
            if versions and is_of_the_read_tables(evidence, operation):
                of_link[operation["link"]].append((operation, versions[0], versions[-1]))
    for link, answers in of_link.items():
        # Answers through nginx are of a process that nobody knows.
        of_processes = [it for it in answers if it[0]["process"] is not None]
        undisturbed = [it for it in answers if not is_disturbed(evidence, it[0])]
        stale_s_max = VISIBLE_S_MAX + evidence.facts.get("redirect_staleness_s", STALE_S_MAX - VISIBLE_S_MAX)
        yield from older_answers(link, of_processes, of_processes, 0, lambda it: it["process"])
        yield from older_answers(link, answers, undisturbed, STALE_S_MAX, lambda _: None)
        yield from older_answers(link, answers, answers, stale_s_max, lambda _: None)


def is_disturbed(evidence, operation):
    return any(it["start"] <= operation["start"] <= it["end"] + NOTICE_S_MAX for it in evidence.of["fault"])


def older_answers(link, answers, judged, delay_s, place):
    """Yields each of the judged redirects that is older than an answer of the same place that ended `delay_s` before."""
    ends = sorted(answers, key=lambda it: it[0]["end"])
    highest, next_end = {}, 0
    for operation, _, last in sorted(judged, key=lambda it: it[0]["start"]):
        while next_end < len(ends) and ends[next_end][0]["end"] + delay_s < operation["start"]:
            earlier, first, _ = ends[next_end]
            if first > highest.get(place(earlier), (0, 0))[0]:
                highest[place(earlier)] = (first, earlier["id"])
            next_end += 1
        first, by = highest.get(place(operation), (0, 0))
        if last < first:
            yield f"redirect {operation['id']} of {link} shows at most version {last}, after answer {by} of version {first}"


def scans(evidence):
    """Returns the complete scans: their first page, all items, and the end."""
    pages = collections.defaultdict(dict)
    for operation in evidence.of["list"]:
        if operation["status"] == 200:
            pages[operation["scan"]][operation["page"]] = operation
    for found in pages.values():
        ordered = [found[page] for page in sorted(found)]
        if json.loads(ordered[-1]["body"])["next_cursor"] is None and len(found) == max(found) + 1:
            yield ordered[0], [item for page in ordered for item in json.loads(page["body"])["items"]], ordered[-1]["end"]


def scans_are_exact(evidence):
    """A scan has each link once, all links up to its token unless somebody deletes them, and no link that was deleted
    before its token; a scan of the ledger has exactly the first entries of the account."""
    tokens = evidence.tokens()
    for first, items, end in scans(evidence):
        token = tokens.get(first["token"])
        check = links_of_scan if first["collection"] == "links" else entries_of_scan
        yield from check(evidence, first, items, end, token)


def links_of_scan(evidence, first, items, end, token):
    name, ids = f"scan {first['scan']} of {first['account']}", [item["id"] for item in items]
    if len(set(ids)) != len(ids):
        yield f"{name} has a link twice"
    filters, clock = first.get("filters", {}), evidence.clock("query-api", first["start"], end)
    position = token["position"] if token else 0
    for item in items:
        states = evidence.states.get(item["id"], [])
        versions = [version for version, state in enumerate(states, 1)
                    if meets(state, filters, clock) is not False and shown(state) == shown_in(item)]
        if not versions:
            yield f"{name} has {item['id']} as no version of the log with {filters} is: {shown_in(item)}"
        elif versions[-1] < version_at(evidence, item["id"], position):
            yield f"{name} has {item['id']} with version {versions[-1]}, which is older than its token"
    present = set(ids)
    for event in evidence.of_account[first["account"]]:
        if event["type"] == "LinkCreated" and event["position"] <= position and event["subject"] not in present:
            if is_due(evidence, event["subject"], position, end, filters, clock):
                yield f"{name} with {filters} lacks {event['subject']}, which is before its token"


def version_at(evidence, link, position):
    """Returns the version of a link at a position of its shard."""
    return sum(event["position"] <= position for event in evidence.of_link[link])


def is_due(evidence, link, position, end, filters, clock):
    """Returns true if all states of a link, from a position up to the end of a scan, meet the filters."""
    events, states = evidence.of_link[link], evidence.states[link]
    last = version_at(evidence, link, position)
    return all(meets(state, filters, clock) for event, state in zip(events[last - 1:], states[last - 1:])
               if event["version"] == last or (evidence.invoked_at[event["id"]] or 0) <= end)


def entries_of_scan(evidence, first, items, _end, token):
    name = f"scan {first['scan']} of the ledger of {first['account']}"
    events = [it for it in evidence.of_account[first["account"]] if "balance_after" in it["payload"]]
    wanted = collections.Counter((it["payload"]["balance_after"], it["payload"].get("link_id")) for it in events[: len(items)])
    if wanted != collections.Counter((item["balance_after"], item["link_id"]) for item in items):
        yield f"{name} does not have the first {len(items)} entries of the log"
    if token and any(it["position"] <= token["position"] for it in events[len(items):]):
        yield f"{name} ends before its token"


def last_reads_equal_the_log(evidence):
    """After the run each process answers with the state that the log has."""
    looks = {(it["op"], it["service"], it["link"]): it for it in evidence.operations if it.get("is_last")}
    for operation in looks.values():
        events = evidence.of_link[operation["link"]]
        if not events:
            continue
        state = evidence.state(operation["link"], len(events))
        if operation["op"] == "get":
            found, wanted = (operation["status"], etag_version(operation)), {(200, len(events)) if state else (404, None)}
        else:
            found = (operation["status"], operation.get("headers", {}).get("Location"))
            wanted = redirects(state, evidence.clock_of_redirect(operation))
        if found not in wanted:
            yield f"the last {operation['op']} {operation['id']} of {operation['link']} was answered {found}, not {wanted}"
    yield from last_lists(evidence)


def last_lists(evidence):
    for first, items, end in scans(evidence):
        if first["client"] != "auditor-of-lists":
            continue
        mine = evidence.of_account[first["account"]]
        if first["collection"] == "links":
            yield from last_links(evidence, first, items, end)
        elif len(items) != sum("balance_after" in it["payload"] for it in mine):
            yield f"the last ledger of {first['account']} has {len(items)} entries, fewer or more than the log"
    for account, operation in {it["account"]: it for it in evidence.of["credits"] if it["client"] == "auditor-of-lists"}.items():
        balance = evidence.accounts[account]["balance"]
        if operation["status"] != 200 or json.loads(operation["body"])["balance"] != balance:
            yield f"the last balance of {account} is not {balance}: {operation.get('body')}"


def last_links(evidence, first, items, end):
    """Compares a last list with the links of the log that meet its filters."""
    filters, clock = first.get("filters", {}), evidence.clock("query-api", first["start"], end)
    found = {item["id"]: shown_in(item) for item in items}
    for event in evidence.of_account[first["account"]]:
        if event["type"] == "LinkCreated":
            link, state = event["subject"], evidence.states[event["subject"]][-1]
            is_wanted = meets(state, filters, clock)
            if is_wanted is False and link in found or is_wanted and found.get(link) != shown(state):
                yield f"the last list of {first['account']} with {filters} has {link} as {found.get(link)}, not {state}"


RULES = [answers_show_versions_of_the_log, reads_include_their_token, created_links_are_never_missing,
         redirects_are_of_a_version, redirects_are_never_older, scans_are_exact, last_reads_equal_the_log]
