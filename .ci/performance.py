"""Compares the cost of a create, an event and a redirect with the committed figures, or writes new figures.

    performance.py WORK FIGURES [--accept]

WORK has the output of a native run of `linkledger-cost` (`counters`), and the counts of callgrind
(`callgrind.1`, …, one dump for each line of the output; a part may have several).
FIGURES is the folder of `figures.json` and `functions.json`.
"""

import json
import re
import sys
from pathlib import Path

# Instructions do not depend on the machine, but on hashes' seeds and on how the kernel cuts streams.
INSTRUCTIONS_TOLERANCE = 0.05
# B-trees split here or there.
WAL_TOLERANCE = 0.03
# Whole pages are more or less full. Another index in random order adds a page to each create, about 10 %.
LARGE_STORE = "create_in_large_store"
WHOLE_PAGES_TOLERANCE = 0.06
# A function with a smaller share is not kept.
SHARE_MIN = 0.005
# Functions that are named when there are more instructions.
NAMED_MAX = 12
ACCEPT = ".ci/performance --accept"


def self_costs(dump):
    """Reads the instructions of each function itself, without callees, from a file of callgrind."""
    names, costs, current, is_call = {}, {}, None, False
    for line in dump.read_text().splitlines():
        if match := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line):
            is_callee, number, name = match.groups()
            if name:
                names[number] = re.sub(r"::h[0-9a-f]{16}|'\d+$", "", name)
            if not is_callee:
                current = names[number]
        elif line.startswith("calls="):
            is_call = True
        elif match := re.match(r"[+\-*\d]\S* (\d+)$", line):
            # The line after a call has the cost of the callee.
            if not is_call:
                costs[current] = costs.get(current, 0) + int(match[1])
            is_call = False
    return costs


def measured(work):
    """Returns the figures of each part for one create, event or redirect, with statements and functions."""
    figures, functions, statements, dumps = {}, {}, {}, {}
    for number, line in enumerate((work / "counters").read_text().splitlines(), start=1):
        counted = json.loads(line)
        part, done = counted["part"], counted["done"]
        costs = self_costs(work / f"callgrind.{number}")
        if done and costs:
            dumps.setdefault(part, []).append({name: cost / done for name, cost in costs.items()})
        if counted["statements"] is not None:
            statements[part] = counted["statements"]
            figures[part] = {
                "statements_per_batch": len(statements[part]),
                "round_trips_per_batch": counted["round_trips"],
                "wal_bytes": round(counted["wal_bytes"] / done),
            }
    for part, rounds in dumps.items():
        # Of several rounds, the cheapest: work that depends on the clock is in some.
        costs = min(rounds, key=lambda costs: sum(costs.values()))
        total = sum(costs.values())
        figures[part] = {"instructions": round(total)} | figures.get(part, {})
        largest = sorted(costs.items(), key=lambda item: -item[1])
        functions[part] = {name: round(cost) for name, cost in largest if cost >= SHARE_MIN * total}
    return figures, functions, statements


def is_right(part, name, now, committed):
    """Returns true if a figure equals the committed figure within its tolerance."""
    tolerances = {"instructions": INSTRUCTIONS_TOLERANCE, "wal_bytes": WHOLE_PAGES_TOLERANCE if part == LARGE_STORE else WAL_TOLERANCE}
    return abs(now - committed) <= tolerances.get(name, 0) * committed


def grown(now, committed):
    """Returns the functions with more instructions than before, the largest growth first."""
    growth = {name: cost - committed.get(name, 0) for name, cost in now.items()}
    largest = sorted(growth.items(), key=lambda item: -item[1])
    return [(name, cost) for name, cost in largest if cost > 0][:NAMED_MAX]


def explain(name, functions, committed_functions, statements):
    """Prints the functions or statements that explain a figure that has grown."""
    if name == "instructions":
        print("  functions with more instructions than committed, without callees:")
        for function, growth in grown(functions, committed_functions):
            print(f"  {growth:+9,} of {functions[function]:9,}  {function}")
    elif name == "statements_per_batch":
        for statement in statements:
            print(f"  {' '.join(statement.split())[:100]}")


def compare(now, committed):
    """Prints each figure with the committed figure; returns the number of wrong figures."""
    figures, functions, statements = now
    committed_figures, committed_functions = committed
    wrong = 0
    for part, name in ((p, n) for p, of in committed_figures.items() for n in of):
        if name not in figures.get(part, {}):
            print(f"{part} {name}: NOT COUNTED; if intended, run {ACCEPT}")
            wrong += 1
    for part, name, value in ((p, n, v) for p, of in figures.items() for n, v in of.items()):
        was = committed_figures.get(part, {}).get(name)
        if was is None:
            print(f"{part} {name}: {value:,}: NOT COMMITTED; run {ACCEPT}")
            wrong += 1
            continue
        change = f"{part} {name}: {value:,}, committed {was:,} ({(value - was) / was:+.1%})"
        if is_right(part, name, value, was):
            print(change)
            continue
        wrong += 1
        if value < was:
            print(f"{change}: LESS; run {ACCEPT} and commit the new figure")
        else:
            print(f"{change}: MORE")
            explain(
                name, functions.get(part, {}), committed_functions.get(part, {}), statements.get(part, [])
            )
    return wrong


def written(values):
    """Formats JSON with one line for each figure."""
    parts = []
    for part, figures in values.items():
        lines = [f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in figures.items()]
        parts.append(f"  {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    work, folder = Path(sys.argv[1]), Path(sys.argv[2])
    files = [folder / "figures.json", folder / "functions.json"]
    now = measured(work)
    if "--accept" in sys.argv[3:]:
        for file, values in zip(files, now[:2]):
            file.write_text(written(values))
        print(files[0].read_text())
        return
    committed = [json.loads(file.read_text()) if file.exists() else {} for file in files]
    wrong = compare(now, committed)
    if wrong:
        print(
            f"{wrong} figures differ from the committed figures. If the change is intended, run {ACCEPT} and commit"
            f" {folder}; otherwise mend the code.",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
