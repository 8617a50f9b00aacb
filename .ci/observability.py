"""Compares the alerts, their tests and the dashboard of deploy/observability with the existing metrics and with
the runbooks, and writes the queries of the panels as rules, which promtool then parses.

usage: observability.py RULES, from the root of the repository
"""

import json
import pathlib
import re
import sys

import yaml

FOLDER = pathlib.Path("deploy/observability")
RUNBOOKS = pathlib.Path("docs/runbooks.md")
# Series that Prometheus itself adds.
OTHERS = {"up": set(), "ALERTS": {"alertname", "alertstate", "severity"}}
SCRAPED = {"job", "instance"}
SUFFIXES = {"_bucket": {"le"}, "_sum": set(), "_count": set()}
PANEL_TYPES = {"row", "stat", "timeseries"}

findings = []


def check(holds, finding):
    if not holds:
        findings.append(finding)


def metrics():
    """Returns kind and labels by name, from docs/metrics.md, which tests of core compare with the code."""
    rows = re.findall(r"^- `(linkledger_\w+)` \((\w+)(.*?)\): ", pathlib.Path("docs/metrics.md").read_text(), re.M)
    known = {}
    for name, kind, labels in rows:
        labels = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            known |= {name + suffix: ("counter", labels | more) for suffix, more in SUFFIXES.items()}
        else:
            known[name] = (kind, labels)
    return known | {name: ("gauge", labels) for name, labels in OTHERS.items()}


def values_in_the_code():
    sources = [file for folder in ("*/src", "core/*/src") for file in pathlib.Path().glob(folder + "/**/*.rs")]
    return set(re.findall(r'"([a-z][a-z0-9_.-]*)"', "\n".join(path.read_text() for path in sources)))


def check_expression(where, expression, known, values):
    """Checks that the expression names only existing metrics and labels; returns the labels of its series."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    labels = set(SCRAPED)
    for name in re.findall(r"(?<![\w:$])(linkledger[_:][\w:]*|process_\w+|up|ALERTS)\b(?!\s*\()", bare):
        if name.startswith("process_"):
            continue
        check(name in known, f"{where}: there is no metric {name}")
        labels |= known.get(name, ("", set()))[1]
    for name, selector in re.findall(r"([\w:]+)\{(.*?)\}", expression):
        for label, _, wanted in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', selector):
            of_it = known.get(name, ("", set()))[1]
            check(label in of_it | SCRAPED, f"{where}: {name} has no label {label}")
            # A value that the code never writes would never match.
            if label in {"code", "reason", "service", "projection", "cache", "result", "command"}:
                for value in wanted.split("|"):
                    check(value in values, f"{where}: no code has the value {value} for {label}")
    for grouping in re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)", bare):
        for label in filter(None, map(str.strip, grouping.split(","))):
            check(label in labels, f"{where}: none of these metrics has the label {label}")
    for function, name in re.findall(r"\b(rate|increase|irate|delta|deriv|changes)\(\s*([\w:]+)", bare):
        is_counter = known.get(name, ("counter",))[0] == "counter"
        check(is_counter == (function in {"rate", "increase", "irate"}), f"{where}: {function} of {name}")
    return labels


def recorded(rules, known, values):
    """Adds the recorded series to `known`, with the labels by which they are grouped."""
    for rule in rules:
        check_expression(rule["record"], rule["expr"], known, values)
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])[0]
        labels = {label.strip() for label in grouped.split(",")} - {"le"}
        known[rule["record"]] = ("gauge", labels)


def anchor_of(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def anchors(path):
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.*)$", path.read_text(), re.M)}


def section(path, anchor):
    parts = re.split(r"^## ", path.read_text(), flags=re.M)
    return next((part for part in parts if anchor_of(part.split("\n")[0]) == anchor), "")


def check_alerts(rules, known, values):
    sections = set()
    for rule in rules:
        name = rule["alert"]
        check(name.startswith("Linkledger"), f"{name}: the name must begin with Linkledger")
        labels = check_expression(name, rule["expr"], known, values)
        check(rule["labels"]["severity"] in {"critical", "warning"}, f"{name}: severity must be critical or warning")
        annotations = rule["annotations"]
        for label in re.findall(r"\$labels\.(\w+)", annotations["summary"]):
            check(label in labels, f"{name}: its summary names the label {label}, which its series lack")
        path, _, anchor = annotations["runbook_url"].partition("#")
        check(pathlib.Path(path) == RUNBOOKS, f"{name}: runbook_url must be in {RUNBOOKS}")
        check(f"`{name}`" in section(RUNBOOKS, anchor), f"{name}: {RUNBOOKS} has no section {anchor} that names it")
        sections.add(anchor)
    for anchor in anchors(RUNBOOKS) - {"runbooks"} - sections:
        check(False, f"{RUNBOOKS}#{anchor}: no alert has this runbook")


def check_reasons():
    """Checks that every reason for which the relay refuses to publish is in a runbook."""
    relay = "".join(file.read_text() for file in sorted(pathlib.Path("command-api/src/relay").rglob("*.rs")))
    names = re.findall(r'(?:RelayRefusal|Self)::new\("(\w+)"', relay)
    check(names, "no reason is found in command-api/src/relay")
    described = section(RUNBOOKS, "relay-refuses") + (FOLDER / "alerts.yml").read_text()
    for reason in names:
        check(reason in described, f"{RUNBOOKS}#relay-refuses lacks the reason {reason}")


def check_tests(rules, groups):
    tests = yaml.safe_load((FOLDER / "tests.yml").read_text())
    check(tests["group_eval_order"] == groups, f"tests.yml: group_eval_order must be {groups}")
    cases = [case for test in tests["tests"] for case in test["alert_rule_test"]]
    for rule in rules:
        of_it = [bool(case.get("exp_alerts")) for case in cases if case["alertname"] == rule["alert"]]
        check(True in of_it, f"{rule['alert']}: no test in which it fires")
        check(False in of_it, f"{rule['alert']}: no test in which it does not fire")


def check_links():
    """Checks that the links between the documents have a target."""
    for document in pathlib.Path("docs").glob("*.md"):
        for path, anchor in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", document.read_text()):
            target = document.parent / path if path else document
            check(anchor in anchors(target), f"{document}: there is no {target}#{anchor}")


def check_panels(dashboard, known, values):
    """Checks the panels, and returns their queries."""
    panels = dashboard["panels"]
    check(len({panel["id"] for panel in panels}) == len(panels), "two panels have the same id")
    taken, asked = set(), []
    for panel in panels:
        where = f"panel {panel['title']}"
        check(panel["type"] in PANEL_TYPES, f"{where}: the type must be one of {sorted(PANEL_TYPES)}")
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        check(place["x"] + place["w"] <= 24 and not cells & taken, f"{where}: overlaps another panel, or is too wide")
        taken |= cells
        if panel["type"] == "row":
            continue
        check(panel.get("description", "").endswith("."), f"{where}: lacks a description that ends with a full stop")
        check(panel["fieldConfig"]["defaults"].get("unit"), f"{where}: lacks a unit")
        check(panel["datasource"]["uid"] == "${datasource}", f"{where}: the data source must be the variable datasource")
        check(panel["targets"], f"{where}: has no query")
        for target in panel["targets"]:
            labels = check_expression(where, target["expr"], known, values)
            for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")):
                check(label in labels, f"{where}: the legend names {label}, which the series lack")
            asked.append(target["expr"].replace("$__rate_interval", "1m").replace("$__range", "1h"))
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    check(variables == {"datasource"}, "the only variable must be datasource")
    return asked


def main(parsed_by_promtool):
    known, values = metrics(), values_in_the_code()
    groups = [group for name in ("recording.yml", "alerts.yml") for group in yaml.safe_load((FOLDER / name).read_text())["groups"]]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded([rule for rule in rules if "record" in rule], known, values)
    alerts = [rule for rule in rules if "alert" in rule]
    check_alerts(alerts, known, values)
    check_tests(alerts, [group["name"] for group in groups])
    check_links()
    check_reasons()
    asked = check_panels(json.loads((FOLDER / "dashboard.json").read_text()), known, values)
    as_rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked)]
    pathlib.Path(parsed_by_promtool).write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": as_rules}]}))
    if findings:
        sys.exit("\n".join(findings))


main(*sys.argv[1:])
