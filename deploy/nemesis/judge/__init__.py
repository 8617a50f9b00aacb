"""The judge of a run. It shares no code with the services, and knows only histories, the log by SQL and the stream.

usage: python3 -m judge FOLDER
"""

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
    writes = sorted((it["start"], it["end"]) for it in (*evidence.of["create"], *evidence.of["patch"]) if it["status"] in (200, 201))
    reads = sorted((it["start"], it["end"]) for it in (*evidence.of["get"], *evidence.of["redirect"]) if it["status"] in (200, 302))
    for kind in sorted({it["kind"] for it in evidence.of["fault"]}):
        faults = [it for it in evidence.of["fault"] if it["kind"] == kind]
        lasted = sum(it["end"] - it["start"] for it in faults)
        print(f"   fault {kind}: {len(faults)} times, {lasted:.0f} s; until a write succeeded {recovery(faults, writes)}, "
              f"a read {recovery(faults, reads)}")
    print(f"   {len(evidence.log)} events, {len(evidence.stream)} records read, ready {evidence.facts['ready_after_s']:.1f} s "
          f"after the last fault, nothing behind {evidence.facts['quiet_after_s']:.1f} s after the last request")


def recovery(faults, successes):
    """Returns p50 and max of a time of each fault: from the end of the fault to the end of the first success that began
    later; of a failover, the longest time without a success."""
    waits = []
    for fault in faults:
        if "outage_at" in fault:
            ends = sorted(end for _, end in successes if fault["outage_at"] < end < fault["end"])
            waits += [max(later - end for end, later in itertools.pairwise([fault["outage_at"], *ends, fault["end"]]))]
        elif later := [end for start, end in successes if start > fault["end"]]:
            waits.append(min(later) - fault["end"])
    return f"p50 {statistics.median(waits):.2f} s, max {max(waits):.2f} s" if waits else "never"


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
