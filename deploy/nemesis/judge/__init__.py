"""The judge of a run. It shares no code with the services, and knows only histories, the log by SQL and the stream.

usage: python3 -m judge FOLDER…
"""

import collections
import itertools
import statistics

from . import log_rules, minima, observation_rules, outside_rules, read_rules, subscriber_rules, write_rules
from .evidence import Evidence

RULES = [*log_rules.RULES, *write_rules.RULES, *read_rules.RULES, *subscriber_rules.RULES,
         *observation_rules.RULES, *outside_rules.RULES]
FINDINGS_SHOWN_MAX = 8
# Operations whose first success after a fault the report times.
RECOVERED = {"write": ("create", "patch"), "read": ("get",), "redirect": ("redirect",)}
# Operations whose answers the report counts.
REPORTED = ("create", "batch", "patch", "get", "redirect", "list", "credits", "delete", "operate", "feed",
            "webhook")


def findings(evidence):
    """Returns the findings by the name of the rule."""
    return {rule.__name__: found for rule in RULES if (found := list(itertools.islice(rule(evidence), 100)))}


def report(evidence):
    """Prints what was done and answered, and how long each kind of fault took to be over."""
    for op in REPORTED:
        statuses = [it.get("status", it.get("exit")) for it in evidence.of[op]]
        counts = {str(status): statuses.count(status) for status in sorted(set(statuses), key=str)}
        print(f"   {op}: {len(statuses)}, by answer {counts}")
    for sentence in subscriber_rules.summary(evidence):
        print(f"   {sentence}")
    for kind, faults, times in recoveries(evidence):
        lasted = sum(it["end"] - it["start"] for it in faults)
        until = ", ".join(f"a {what} {p50_and_max(seconds)}" for what, seconds in times.items())
        print(f"   fault {kind}: {len(faults)} times, {lasted:.0f} s; time until success: {until}")
        for visitors, redirects in redirects_without_writes(evidence, faults):
            answered = [it["status"] in (302, 410) for it in redirects]
            print(f"      while no write succeeded, {visitors}: {answered.count(True)} of {len(answered)} redirects answered")
    print(f"   {len(evidence.log)} events, {len(evidence.stream)} records read, ready {evidence.facts['ready_after_s']:.1f} s "
          f"after the last fault, nothing behind {evidence.facts['quiet_after_s']:.1f} s after the last request")


def successes_of(evidence, ops):
    return sorted((it["start"], it["end"]) for op in ops for it in evidence.of[op] if it["status"] in (200, 201, 302))


def recoveries(evidence):
    """Yields each kind of faults, its faults, and the times until each of `RECOVERED` succeeded."""
    successes = {what: successes_of(evidence, ops) for what, ops in RECOVERED.items()}
    for kind in sorted({it["kind"] for it in evidence.of["fault"]}):
        faults = [it for it in evidence.of["fault"] if it["kind"] == kind]
        yield kind, faults, {what: waits(faults, found) for what, found in successes.items()}


def print_table(folders):
    """Prints how often each kind of faults happened in all runs, and p50 and max of the times until it was over."""
    numbers, times = collections.Counter(), collections.defaultdict(list)
    for folder in folders:
        for kind, faults, of_run in recoveries(Evidence.read(folder)):
            numbers[kind] += len(faults)
            for what, seconds in of_run.items():
                times[kind, what] += seconds
    print("| fault | times |", *(f"until a {what} |" for what in RECOVERED))
    print("|---" * (2 + len(RECOVERED)) + "|")
    for kind, number in sorted(numbers.items()):
        print(f"| `{kind}` | {number} |", *(f"{p50_and_max(times[kind, what])} |" for what in RECOVERED))


def waits(faults, successes):
    """Returns a time of each fault: from the end of the fault to the end of the first success that began later; of a
    failover, the longest time without a success."""
    found = []
    for fault in faults:
        if "outage_at" in fault:
            begin, end = longest_gap(fault, successes)
            found.append(end - begin)
        elif later := [end for start, end in successes if start > fault["end"]]:
            found.append(min(later) - fault["end"])
    return found


def longest_gap(failover, successes):
    """Returns begin and end of the longest time without a success."""
    ends = sorted(end for _, end in successes if failover["outage_at"] < end < failover["end"])
    gaps = itertools.pairwise([failover["outage_at"], *ends, failover["end"]])
    return max(gaps, key=lambda gap: gap[1] - gap[0])


def redirects_without_writes(evidence, faults):
    """Yields each kind of visitors, and its redirects that began and ended while failovers let no write succeed."""
    writes = successes_of(evidence, RECOVERED["write"])
    gaps = [longest_gap(fault, writes) for fault in faults if "outage_at" in fault]
    found = collections.defaultdict(list)
    for it in evidence.of["redirect"]:
        if any(begin < it["start"] and it["end"] < end for begin, end in gaps):
            found[it["client"].rsplit("-", 1)[0]].append(it)
    yield from sorted(found.items())


def p50_and_max(seconds):
    return f"p50 {statistics.median(seconds):.2f} s, max {max(seconds):.2f} s" if seconds else "never"


def main(folder):
    """Prints report and findings of a run; returns the exit code."""
    evidence = Evidence.read(folder)
    report(evidence)
    found = findings(evidence)
    numbers = minima.exercised(evidence)
    if rare := list(minima.missing(numbers)):
        found["operations_are_exercised"] = rare
    for rule, texts in found.items():
        print(f"   FOUND {rule}: {len(texts)}")
        for text in texts[:FINDINGS_SHOWN_MAX]:
            print(f"      {text}")
    print(f"   exercised: {', '.join(f'{number} {minimum.operations}' for minimum, number, _ in numbers)}")
    print(f"   {len(RULES)} rules, {len(found)} broken; evidence in {folder}", flush=True)
    return 1 if found else 0
