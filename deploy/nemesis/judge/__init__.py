"""The judge of a run. It shares no code with the services, and knows only histories, the log by SQL and the stream.

usage: python3 -m judge FOLDER…
"""

import collections
import itertools
import statistics

from . import log_rules, minima, outside_rules, read_rules, write_rules
from .evidence import Evidence

RULES = [*log_rules.RULES, *write_rules.RULES, *read_rules.RULES, *outside_rules.RULES]
FINDINGS_SHOWN_MAX = 8
# Operations whose answers the report counts.
REPORTED = ("create", "batch", "patch", "get", "redirect", "list", "credits", "delete", "operate")


def findings(evidence):
    """Returns the findings by the name of the rule."""
    return {rule.__name__: found for rule in RULES if (found := list(itertools.islice(rule(evidence), 100)))}


def report(evidence):
    """Prints what was done and answered, and how long each kind of fault took to be over."""
    for op in REPORTED:
        statuses = [it.get("status", it.get("exit")) for it in evidence.of[op]]
        counts = {str(status): statuses.count(status) for status in sorted(set(statuses), key=str)}
        print(f"   {op}: {len(statuses)}, by answer {counts}")
    for kind, faults, writes, reads in recoveries(evidence):
        lasted = sum(it["end"] - it["start"] for it in faults)
        print(f"   fault {kind}: {len(faults)} times, {lasted:.0f} s; until a write succeeded {p50_and_max(writes)}, "
              f"a read {p50_and_max(reads)}")
    print(f"   {len(evidence.log)} events, {len(evidence.stream)} records read, ready {evidence.facts['ready_after_s']:.1f} s "
          f"after the last fault, nothing behind {evidence.facts['quiet_after_s']:.1f} s after the last request")


def recoveries(evidence):
    """Yields each kind of faults, its faults, and the times until a write and until a read succeeded."""
    writes = sorted((it["start"], it["end"]) for it in (*evidence.of["create"], *evidence.of["patch"]) if it["status"] in (200, 201))
    reads = sorted((it["start"], it["end"]) for it in (*evidence.of["get"], *evidence.of["redirect"]) if it["status"] in (200, 302))
    for kind in sorted({it["kind"] for it in evidence.of["fault"]}):
        faults = [it for it in evidence.of["fault"] if it["kind"] == kind]
        yield kind, faults, waits(faults, writes), waits(faults, reads)


def print_table(folders):
    """Prints how often each kind of faults happened in all runs, and p50 and max of the times until it was over."""
    numbers, writes, reads = collections.Counter(), collections.defaultdict(list), collections.defaultdict(list)
    for folder in folders:
        for kind, faults, until_write, until_read in recoveries(Evidence.read(folder)):
            numbers[kind] += len(faults)
            writes[kind] += until_write
            reads[kind] += until_read
    print("| fault | times | until a write | until a read |\n|---|---|---|---|")
    for kind, number in sorted(numbers.items()):
        print(f"| `{kind}` | {number} | {p50_and_max(writes[kind])} | {p50_and_max(reads[kind])} |")


def waits(faults, successes):
    """Returns a time of each fault: from the end of the fault to the end of the first success that began later; of a
    failover, the longest time without a success."""
    found = []
    for fault in faults:
        if "outage_at" in fault:
            ends = sorted(end for _, end in successes if fault["outage_at"] < end < fault["end"])
            found += [max(later - end for end, later in itertools.pairwise([fault["outage_at"], *ends, fault["end"]]))]
        elif later := [end for start, end in successes if start > fault["end"]]:
            found.append(min(later) - fault["end"])
    return found


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
