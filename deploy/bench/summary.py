"""Writes the table of docs/performance.md, goals and measured figures, from docs/performance/*.json:
between the two comments that name this file.

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
    return f"{number(figures['median'])} ({number(figures['min'])}–{number(figures['max'])})"


def line(question, row):
    figures = row["ratio"] or row["measured"]
    (bound, wanted), = row["reach"].items()
    is_reached = figures["median"] >= wanted if bound == "at_least" else figures["median"] <= wanted
    measured = f"{spread(row['measured'])} {row['unit']}"
    baseline = f"{spread(row['ratio'])} × {row['baseline']['what']}" if row["ratio"] else ""
    sign = "≥" if bound == "at_least" else "≤"
    verdict = "" if is_reached else ", **missed**"
    return f"| {question}: {row['what']} | {measured} | {baseline} | {sign} {number(wanted)}{verdict} |\n"


def main():
    table = "| question | measured | ratio to its baseline | goal |\n|---|---|---|---|\n"
    for question in QUESTIONS:
        rows = json.loads(Path(f"docs/performance/{question}.json").read_text())["rows"]
        table += "".join(line(question, row) for row in rows if row["reach"])
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + table + END + after)


main()
