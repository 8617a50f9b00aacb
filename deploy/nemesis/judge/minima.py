"""Operations that a run must have exercised: a rule about operations that never happened proves nothing."""

from collections.abc import Callable
from typing import NamedTuple

from .evidence import code
from .links import DETAILS
from .read_rules import may_be_suspended, redirect_versions
from .subscriber_rules import ACCEPTED, items_in

# Without so many minutes and faults of processes behind nginx, a run need not have a retry by nginx.
RETRIES_MINUTES_MIN, RETRIES_FAULTS_MIN = 10, 5
BEHIND_NGINX, FAULTS_OF_PROCESSES = ("command-api", "query-api"), ("kill", "restart")
# Commands of operators that the last look does not send.
COMMANDS = ("grant", "adjust", "disable", "enable", "suspend", "pause-relay", "pause-projection", "rebuild", "rollback", "verify")


def of_clients(evidence, op):
    """Returns the operations of one kind that clients sent, without the last look."""
    return [it for it in evidence.of[op] if not it["client"].startswith("auditor")]


def succeeded(op, *statuses):
    """Returns the counter of an operation with one of these answers."""
    return lambda evidence: sum(it["status"] in statuses for it in of_clients(evidence, op))


def operators_commands(evidence):
    return sum(it["exit"] == 0 and it["kind"] in COMMANDS for it in evidence.of["operate"])


def changes_of_details(evidence):
    return sum(it["status"] == 200 and not set(DETAILS).isdisjoint(it["sent"]) for it in of_clients(evidence, "patch"))


def disabling_by_owners(evidence):
    return sum(it["status"] == 200 and bool(it["sent"].get("disabled")) for it in of_clients(evidence, "patch"))


def refusals_of_external_ids(evidence):
    writes = (*of_clients(evidence, "create"), *of_clients(evidence, "patch"))
    return sum(it["status"] == 409 and code(it) == "external_id_taken" for it in writes)


def filtered_lists(evidence):
    return sum(it["status"] == 200 and bool(it.get("filters")) for it in of_clients(evidence, "list"))


def lists_of_expired(evidence):
    return sum(it["status"] == 200 and it.get("filters", {}).get("state") == "expired" for it in of_clients(evidence, "list"))


def redirects_after_an_expiry(evidence):
    return sum(is_after_an_expiry(evidence, it) for it in of_clients(evidence, "redirect"))


def is_after_an_expiry(evidence, operation):
    """Returns true if nothing but an expiry explains the answer: 410 without a stop or a deletion, or `expired_url`."""
    address = operation.get("headers", {}).get("Location")
    if operation["status"] not in (302, 410) or operation["status"] == 410 and may_be_suspended(evidence, operation):
        return False
    states = [evidence.state(operation["link"], version) for version in redirect_versions(evidence, operation)]
    return bool(states) and all(state and not state["stops"] and address != state["destination_url"] for state in states)


def requests_that_nginx_retried(evidence):
    return sum(it["is_retried"] for it in evidence.operations)


def accepted_messages(evidence):
    return sum(it["answer"] in ACCEPTED for it in of_clients(evidence, "message"))


def messages_not_accepted(evidence):
    return sum(it["answer"] not in ACCEPTED for it in of_clients(evidence, "message"))


def lists_of_messages(evidence):
    return sum(len(items_in(it["body"])) > 1 for it in of_clients(evidence, "message"))


def events(kind):
    """Returns the counter of the events of a type."""
    return lambda evidence: sum(it["type"] == kind for it in evidence.log)


def minutes(evidence):
    """Returns the duration of the clients' requests."""
    times = [(it["start"], it["end"]) for op in ("create", "get", "redirect") for it in of_clients(evidence, op)]
    return (max(end for _, end in times) - min(start for start, _ in times)) / 60 if times else 0.0


def minutes_of_retries(evidence):
    """Returns the duration of a run in which nginx has to retry, and 0 for any other run."""
    faults = sum(it["kind"] in FAULTS_OF_PROCESSES and it["target"].startswith(BEHIND_NGINX) for it in evidence.of["fault"])
    found = minutes(evidence)
    return found if found >= RETRIES_MINUTES_MIN and faults >= RETRIES_FAULTS_MIN else 0.0


class Minimum(NamedTuple):
    """Least number of an operation for each minute of a run, rounded down: 0.4 to 3 % of what clients reach on two busy cores."""

    operations: str
    per_minute: float
    count: Callable
    minutes: Callable = minutes


MINIMA = [
    Minimum("creates", 10, succeeded("create", 201)),
    Minimum("batches", 1, succeeded("batch", 200, 201, 207)),
    Minimum("changes", 5, succeeded("patch", 200)),
    Minimum("deletions", 0.25, succeeded("delete", 204)),
    Minimum("reads", 8, succeeded("get", 200)),
    Minimum("redirects", 8, succeeded("redirect", 302)),
    Minimum("pages of lists", 2.5, succeeded("list", 200)),
    Minimum("reads of balances", 0.3, succeeded("credits", 200)),
    Minimum("commands of operators", 0.5, operators_commands),
    Minimum("changes of details", 2.5, changes_of_details),
    Minimum("changes by owners that disable", 0.25, disabling_by_owners),
    Minimum("refusals external_id_taken", 0.25, refusals_of_external_ids),
    Minimum("redirects after an expiry", 0.25, redirects_after_an_expiry),
    Minimum("pages of filtered lists", 0.5, filtered_lists),
    Minimum("pages of lists with state=expired", 0.1, lists_of_expired),
    Minimum("pages of feeds", 2.5, succeeded("feed", 200)),
    Minimum("messages that receivers accepted", 5, accepted_messages),
    Minimum("messages that receivers did not accept", 0.25, messages_not_accepted),
    Minimum("requests with several messages", 0.5, lists_of_messages),
    Minimum("events of expiries", 0.25, events("LinkExpired")),
    Minimum("events of first clicks", 0.25, events("LinkFirstClicked")),
    Minimum("events of clicks by minute", 0.1, events("LinksClicked")),
    Minimum("requests that nginx retried", 0.1, requests_that_nginx_retried, minutes_of_retries),
]


def exercised(evidence):
    """Returns of each minimum the number of operations in a run, and the minutes that count for the minimum."""
    return [(minimum, minimum.count(evidence), minimum.minutes(evidence)) for minimum in MINIMA]


def missing(numbers):
    """Returns a sentence for each operation that happened too rarely."""
    for minimum, number, duration in numbers:
        least = int(minimum.per_minute * duration)
        if number < least:
            yield f"the run has {number or 'no'} {minimum.operations} in {duration:.1f} minutes, and needs at least {least}"
