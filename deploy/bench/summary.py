"""Writes the table of docs/performance.md, goals and measured figures, from docs/performance/*.json:
between the two comments that name this file.

usage: summary.py, from the root of the repository, after `linkledger-bench`; needs nothing but Python
"""

import json
from pathlib import Path

PAGE = Path("docs/performance.md")
BEGIN, END = "<!-- deploy/bench/summary.py -->\n", "<!-- end of deploy/bench/summary.py -->\n"
BENCHMARKS = ["creates", "batches", "contention", "create-latency", "redirects", "unknown-slugs", "get-link", "list-links", "filter-links", "visible", "catch-up", "clicks", "click-freshness", "subscribers", "growth", "footprint"]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(figures):
    return f"{number(figures['median'])} ({number(figures['min'])}–{number(figures['max'])})"


def goal(reach, medians):
    """Returns the goal, and that it was missed if one of the medians misses it."""
    (bound, wanted), = reach.items()
    sign = "≥" if bound == "at_least" else "≤"
    is_reached = all(median >= wanted if bound == "at_least" else median <= wanted for median in medians)
    return f"{sign} {number(wanted)}" + ("" if is_reached else ", **missed**")


def line(benchmark, row):
    figures = row["ratio"] or row["measured"]
    # A ratio is compared, so its spread matters.
    measured = number(row["measured"]["median"]) if row["ratio"] else spread(row["measured"])
    baseline = f"{spread(row['ratio'])} × {row['baseline']['what']}" if row["ratio"] else ""
    return f"| {benchmark}: {row['what']} | {measured} {row['unit']} | {baseline} | {goal(row['reach'], [figures['median']])} |\n"


def footprint(rows):
    """Merges the rows of the programs that measure the same: `command-api, at rest`, `projector, at rest`."""
    lines = {}
    for row in rows:
        program, _, what = row["what"].partition(", ")
        lines.setdefault(what, {})[program] = row
    text = ""
    for what, rows in lines.items():
        measured = ", ".join(f"{program} {spread(row['measured'])}" for program, row in rows.items())
        medians = [row["measured"]["median"] for row in rows.values()]
        row = next(iter(rows.values()))
        text += f"| footprint: {what} | {measured} {row['unit']} |  | {goal(row['reach'], medians)} |\n"
    return text


def filter_links(rows):
    """Shows the filters that miss their goal, and the worst one of the others."""
    rows = sorted(rows, key=lambda row: -row["ratio"]["median"])
    missed = [row for row in rows if row["ratio"]["median"] > row["reach"]["at_most"]]
    worst = rows[len(missed)]
    worst = {**worst, "what": f"{worst['what']}, the worst ratio of {len(rows) - len(missed)} others" if missed else f"{worst['what']}, the worst ratio of {len(rows)}"}
    return "".join(line("filter-links", row) for row in [*missed, worst])


def growth(rows):
    """Merges the rows of the stores, which have the same order everywhere: `creates, 1 million events`."""
    kinds = {}
    for row in rows:
        kinds.setdefault(row["what"].rpartition(", ")[0], []).append(row)
    text = ""
    for what, rows in kinds.items():
        first, figures = rows[0], [row["ratio"] or row["measured"] for row in rows]
        measured = [number(row["measured"]["median"]) if row["ratio"] else spread(row["measured"]) for row in rows]
        baseline = "; ".join(map(spread, figures)) + f" × {first['baseline']['what']}" if first["ratio"] else ""
        text += f"| growth: {what} | {'; '.join(measured)} {first['unit']} | {baseline} | {goal(first['reach'], [it['median'] for it in figures])} |\n"
    return text


MERGED = {"growth": growth, "footprint": footprint, "filter-links": filter_links}


def main():
    table = "| benchmark | measured | ratio to its baseline | goal |\n|---|---|---|---|\n"
    for benchmark in BENCHMARKS:
        rows = json.loads(Path(f"docs/performance/{benchmark}.json").read_text())["rows"]
        rows = [row for row in rows if row["reach"]]
        table += MERGED[benchmark](rows) if benchmark in MERGED else "".join(line(benchmark, row) for row in rows)
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + table + END + after)


main()
