"""Rules of reads: never older than promised, never from the future, never 404 for what was answered."""

import collections
import json

from .evidence import etag_version

# Bound of a redirect after the read tables have a change (docs/api.md#consistency).
STALE_S_MAX = 1


def reads_show_versions_of_the_log(evidence):
    """A read by id shows the destination that its version has in the log, and no version before its invocation."""
    for operation in evidence.of["get"]:
        if operation["status"] == 200:
            link, version = operation["link"], etag_version(operation)
            if json.loads(operation["body"])["destination_url"] != evidence.destination(link, version):
                yield f"read {operation['id']} of {link} shows another destination than version {version} has"
            elif (evidence.invoked_at[evidence.of_link[link][version - 1]["id"]] or 0) > operation["end"]:
                yield f"read {operation['id']} of {link} shows version {version} before it was asked for"


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
        if operation["status"] == 410 and not may_be_gone(evidence, operation):
            yield f"redirect {operation['id']} of {operation['link']} was answered 410, and nobody stopped the link"


def may_be_gone(evidence, operation):
    link, end = operation["link"], operation["end"]
    account = evidence.of_link[link][0]["account"] if evidence.of_link[link] else None
    stopped = (it for it in evidence.of["operate"] if it.get("link") == link or it.get("account") == account)
    return evidence.delete_invoked_at[link] <= end or any(
        it["start"] <= end and (it["kind"] == "disable" or it.get("stops_redirects")) for it in stopped
    )


def redirect_versions(evidence, operation):
    """Returns the first and the last version that an answer of the short host can be of, or None."""
    events = evidence.of_link[operation["link"]]
    if operation["status"] == 302:
        # A change without If-Match whose outcome was unknown may be there twice, with another change in between.
        destination, versions = None, []
        for event in events:
            destination = event["payload"].get("destination_url") or destination
            if destination == operation["headers"]["Location"] and event["type"] != "LinkDeleted":
                versions.append(event["version"])
        return (versions[0], versions[-1]) if versions else (0, 0)
    deletion = evidence.deletion(operation["link"])
    is_only_deleted = deletion and not any(event["type"] == "LinkDisabled" for event in events) and not any(
        it.get("stops_redirects") and it.get("account") == deletion["account"] for it in evidence.of["operate"]
    )
    return (len(events), len(events)) if operation["status"] == 410 and is_only_deleted else None


def is_of_the_read_tables(evidence, operation):
    """Returns false for an answer that the log may have decided, because the read tables did not have the link yet: a
    410 without an earlier 302. Such a 410 is ahead of the read tables, and a 302 may follow it while they lag."""
    return operation["status"] == 302 or evidence.first_redirect_ended_at[operation["link"]] < operation["start"]


def redirects_are_never_older(evidence):
    """A redirect is never older than an earlier answer of the same process, nor than an answer of any process a
    second ago, and never points to an address before somebody asked for it."""
    of_link = collections.defaultdict(list)
    for operation in evidence.of["redirect"]:
        versions = redirect_versions(evidence, operation)
        if versions == (0, 0):
            yield f"redirect {operation['id']} of {operation['link']} points to an address that the link never had"
        elif versions and is_of_the_read_tables(evidence, operation):
            first, last = versions
            if (evidence.invoked_at[evidence.of_link[operation["link"]][first - 1]["id"]] or 0) > operation["end"]:
                yield f"redirect {operation['id']} of {operation['link']} shows version {first} before it was asked for"
            of_link[operation["link"]].append((operation, first, last))
    for link, answers in of_link.items():
        yield from older_answers(link, answers)


def older_answers(link, answers):
    ends = sorted(answers, key=lambda it: it[0]["end"])
    for delay, place in ((0, lambda it: it["process"]), (STALE_S_MAX, lambda _: None)):
        highest, next_end = {}, 0
        for operation, _, last in sorted(answers, key=lambda it: it[0]["start"]):
            while next_end < len(ends) and ends[next_end][0]["end"] + delay < operation["start"]:
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
    position = token["position"] if token else 0
    for item in items:
        events = evidence.of_link[item["id"]]
        if not events or item["destination_url"] not in {it["payload"].get("destination_url") for it in events}:
            yield f"{name} has {item['id']} with an address that is not in the log"
        elif events[-1]["type"] == "LinkDeleted" and events[-1]["position"] <= position:
            yield f"{name} has {item['id']}, which was deleted before its token"
    present = set(ids)
    for event in evidence.of_account[first["account"]]:
        is_due = event["type"] == "LinkCreated" and event["position"] <= position and evidence.delete_invoked_at[event["subject"]] > end
        if is_due and event["subject"] not in present:
            yield f"{name} lacks {event['subject']}, which is before its token"


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
    for operation in evidence.operations:
        events = evidence.of_link[operation["link"]] if operation.get("is_last") else []
        if not events:
            continue
        is_deleted = events[-1]["type"] == "LinkDeleted"
        switches = [it["type"] for it in events if it["type"] in ("LinkDisabled", "LinkEnabled")]
        is_gone = is_deleted or switches[-1:] == ["LinkDisabled"]
        if operation["op"] == "get":
            found, wanted = (operation["status"], etag_version(operation)), (404, None) if is_deleted else (200, len(events))
        else:
            location = operation.get("headers", {}).get("Location")
            found = (operation["status"], location)
            wanted = (410, None) if is_gone else (302, evidence.destination(operation["link"], len(events)))
        if found != wanted:
            yield f"the last {operation['op']} {operation['id']} of {operation['link']} was answered {found}, not {wanted}"
    yield from last_lists(evidence)


def last_lists(evidence):
    for first, items, _ in scans(evidence):
        if first["client"] != "auditor-of-lists":
            continue
        mine = evidence.of_account[first["account"]]
        if first["collection"] == "links":
            links = {it["subject"] for it in mine if it["type"] == "LinkCreated" and not evidence.deletion(it["subject"])}
            if links != {item["id"] for item in items}:
                yield f"the last list of {first['account']} has {len(items)} links, and the log has {len(links)}"
        elif len(items) != sum("balance_after" in it["payload"] for it in mine):
            yield f"the last ledger of {first['account']} has {len(items)} entries, fewer or more than the log"
    for operation in evidence.of["credits"]:
        if operation["client"] == "auditor-of-lists":
            balance = evidence.accounts[operation["account"]]["balance"]
            if operation["status"] != 200 or json.loads(operation["body"])["balance"] != balance:
                yield f"the last balance of {operation['account']} is not {balance}: {operation.get('body')}"


RULES = [reads_show_versions_of_the_log, reads_include_their_token, created_links_are_never_missing,
         redirects_are_never_older, scans_are_exact, last_reads_equal_the_log]
