"""Checks that each schema of docs/schemas is compatible with every released version of itself.

A record is never rewritten: records of years ago and of today have the same `ce_dataschema`. So a reader built
for any version of a schema must be able to read records of any other version: an optional member may be added,
and descriptions may change; no other change is allowed. Any other change needs a new version of the event, in a
file of its own.

usage: additive_schemas.py    (in the repository; first tests itself with example changes)
"""

import copy
import json
import pathlib
import subprocess
import sys

FOLDER = "docs/schemas"
ANNOTATIONS = {"$comment", "default", "deprecated", "description", "examples", "title"}


def constraints(schema):
    """Returns the schema without descriptions and other annotations."""
    if isinstance(schema, list):
        return [constraints(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    return {
        # The keys in these objects are names of members, which may equal the name of an annotation.
        key: {name: constraints(member) for name, member in value.items()}
        if key in ("properties", "$defs")
        else constraints(value)
        for key, value in kept.items()
    }


def breaks(old, new, place="it"):
    """Returns the changes that break a reader of one schema with records of the other schema."""
    members, known = new.get("properties", {}), old.get("properties", {})
    required, promised = set(new.get("required", [])), set(old.get("required", []))
    found = [f"{place}: `{name}` was removed" for name in known.keys() - members.keys()]
    found += [f"{place}: `{name}` is required, but older records lack it" for name in required - promised]
    found += [f"{place}: `{name}` is no longer required, but readers rely on it" for name in promised - required]
    for keyword in (old.keys() | new.keys()) - {"properties", "required"}:
        was, is_now = (json.dumps(schema.get(keyword, "absent")) for schema in (old, new))
        if was != is_now:
            found.append(f"{place}: `{keyword}` was {was} and is {is_now}")
    for name in known.keys() & members.keys():
        found += breaks(known[name], members[name], f"`{name}`")
    return sorted(found)


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def released():
    """Returns (path, schema) of every version of every schema that a release has: what was never released may change."""
    seen = set()
    for tag in git("tag", "--list", "v*").split():
        for line in git("ls-tree", "-r", tag, "--", FOLDER).splitlines():
            entry, path = line.split("\t")
            seen.add((path, entry.split()[2]))
    return [(path, json.loads(git("cat-file", "blob", blob))) for path, blob in sorted(seen)]


EXAMPLE = {
    "title": "Paid",
    "type": "object",
    "required": ["amount", "kind"],
    "properties": {
        "amount": {"type": "integer", "minimum": 1, "description": "How many."},
        "kind": {"enum": ["cash", "card"]},
        "id": {"type": "string", "pattern": "^x_[0-9]+$"},
        "payer": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    },
}


def changed(*path, to):
    schema = copy.deepcopy(EXAMPLE)
    *parents, last = path
    place = schema
    for step in parents:
        place = place[step]
    if to is None:
        del place[last]
    else:
        place[last] = to
    return schema


ADDITIVE = {
    "nothing": EXAMPLE,
    "a member more": changed("properties", "title", to={"type": "string"}),
    "a member more of a member": changed("properties", "payer", "properties", "city", to={"type": "string"}),
    "another description": changed("properties", "amount", "description", to="How much."),
    "no title": changed("title", to=None),
    "required in another order": changed("required", to=["kind", "amount"]),
}
BREAKING = {
    "a member less": changed("properties", "id", to=None),
    "a member less of a member": changed("properties", "payer", "properties", "name", to=None),
    "another type": changed("properties", "amount", "type", to="number"),
    "a lower minimum": changed("properties", "amount", "minimum", to=0),
    "no minimum": changed("properties", "amount", "minimum", to=None),
    "a maximum": changed("properties", "amount", "maximum", to=9),
    "a wider enum": changed("properties", "kind", "enum", to=["cash", "card", "gift"]),
    "a narrower enum": changed("properties", "kind", "enum", to=["cash"]),
    "another pattern": changed("properties", "id", "pattern", to="^x_[0-9a-f]+$"),
    "no pattern": changed("properties", "id", "pattern", to=None),
    "required from here on": changed("required", to=["amount", "kind", "id"]),
    "no longer required": changed("required", to=["amount"]),
    "no longer required of a member": changed("properties", "payer", "required", to=[]),
    "closed": changed("additionalProperties", to=False),
}


def try_on_cases():
    for name, schema in ADDITIVE.items():
        found = breaks(constraints(EXAMPLE), constraints(schema))
        assert not found, f"{name} is additive, but: {found}"
    for name, schema in BREAKING.items():
        assert breaks(constraints(EXAMPLE), constraints(schema)), f"{name} is not additive"


def main():
    try_on_cases()
    versions = released()
    found = set()
    for path, old in versions:
        file = pathlib.Path(path)
        if not file.exists():
            found.add(f"{path} was removed, but records of it stay in the log")
            continue
        new = json.loads(file.read_text())
        found |= {f"{path}: {what}" for what in breaks(constraints(old), constraints(new))}
    if found:
        rule = "a change that is not additive needs a new version of the event (docs/events.md)"
        sys.exit("\n".join([*sorted(found), rule]))
    files = {path for path, _ in versions}
    print(f"{len(files)} released schemas, {len(versions)} released versions of them: all changes are additive")


main()
