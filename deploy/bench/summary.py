"""Writes the table of docs/performance.md that says what was to be reached, and what was, from
docs/performance/*.json: between the two comments that name this file.

usage: summary.py, from the root of the repository, after `linkledger-bench`; needs nothing but Python
"""

import json
from pathlib import Path

PAGE = Path("docs/performance.md")
BEGIN, END = "<!-- deploy/bench/summary.py -->\n", "<!-- end of deploy/bench/summary.py -->\n"
QUESTIONS = ["creates", "create-latency", "redirects", "get-link", "list-links", "visible", "catch-up", "growth", "footprint"]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(figures):
    return f"{number(figures['median'])} ({number(figures['min'])} to {number(figures['max'])})"


def line(question, row):
    figures = row["ratio"] or row["measured"]
    (bound, wanted), = row["reach"].items()
    is_reached = figures["median"] >= wanted if bound == "at_least" else figures["median"] <= wanted
    measured = f"{spread(row['measured'])} {row['unit']}"
    baseline = f"{spread(row['ratio'])} times {row['baseline']['what']}" if row["ratio"] else ""
    sign = "≥" if bound == "at_least" else "≤"
    verdict = "reached" if is_reached else "**missed**"
    return f"| {question} | {row['what']} | {measured} | {baseline} | {sign} {number(wanted)} | {verdict} |\n"


def main():
    table = "| question | what | measured | to its baseline | reach | |\n|---|---|---|---|---|---|\n"
    for question in QUESTIONS:
        rows = json.loads(Path(f"docs/performance/{question}.json").read_text())["rows"]
        table += "".join(line(question, row) for row in rows if row["reach"])
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + table + END + after)


main()
