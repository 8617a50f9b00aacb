"""The judge of a run. It shares no code with the services, and knows only histories, the log by SQL and the stream.

usage: python3 -m judge FOLDER
"""

import itertools
import statistics

from . import log_rules, outside_rules, read_rules, write_rules
from .evidence import Evidence
from .links import DETAILS

RULES = [*log_rules.RULES, *write_rules.RULES, *read_rules.RULES, *outside_rules.RULES]
FINDINGS_SHOWN_MAX = 8
# Each run has to have these: a rule about nothing proves nothing.
LEAST = {"create": 20, "batch": 5, "patch": 20, "get": 20, "redirect": 20, "list": 5, "credits": 2, "delete": 1, "operate": 3}
# The same of operations that only the rules of details need.
LEAST_OF_DETAILS = {"changes of details": 5, "changes by owners that disable": 1, "redirects after an expiry": 1, "filtered lists": 5}


def number_of_details(evidence):
    """Returns the number of answers that the rules of details have compared, by kind."""
    changes = [it["sent"] for it in evidence.of["patch"] if it["status"] == 200]
    states = (state for states in evidence.states.values() for state in states if state)
    expired_urls = {state["expired_url"] for state in states if "expired_url" in state}
    return {
        "changes of details": sum(not set(DETAILS).isdisjoint(sent) for sent in changes),
        "changes by owners that disable": sum(bool(sent.get("disabled")) for sent in changes),
        "redirects after an expiry": sum(
            it["status"] == 302 and it["headers"]["Location"] in expired_urls for it in evidence.of["redirect"]),
        "filtered lists": sum(it["status"] == 200 and bool(it.get("filters")) for it in evidence.of["list"]),
    }


def findings(evidence):
    """Returns the findings by the name of the rule."""
    return {rule.__name__: found for rule in RULES if (found := list(itertools.islice(rule(evidence), 100)))}


def report(evidence):
    """Prints what was done and answered, and how long each kind of fault took to be over."""
    for op in LEAST:
        statuses = [it.get("status", it.get("exit")) for it in evidence.of[op]]
        counts = {str(status): statuses.count(status) for status in sorted(set(statuses), key=str)}
        print(f"   {op}: {len(statuses)}, by answer {counts}")
    print(f"   {', '.join(f'{number} {kind}' for kind, number in number_of_details(evidence).items())}")
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
    numbers = {op: len(evidence.of[op]) for op in LEAST} | number_of_details(evidence)
    for name, least in (LEAST | LEAST_OF_DETAILS).items():
        if numbers[name] < least:
            found[f"at least {least} {name}"] = [f"there are {numbers[name]}"]
    for rule, texts in found.items():
        print(f"   FOUND {rule}: {len(texts)}")
        for text in texts[:FINDINGS_SHOWN_MAX]:
            print(f"      {text}")
    print(f"   {len(RULES)} rules, {len(found)} broken; evidence in {folder}", flush=True)
    return 1 if found else 0
