#!/usr/bin/env python3
"""Fails if a folder of a crate imports a folder of the same crate above its own layer, or if modules at the top of
a crate import each other in a circle.

usage: layers.py

A folder that does not exist is skipped.
"""
import pathlib
import re
import sys

# Crate; folder; the modules that no file of the folder may name.
RULES = [
    ("projector", "pipeline", {"admin_routes", "cli", "clicks", "operations"}),
    ("projector", "read_models", {"admin_routes", "cli", "clicks", "operations"}),
    ("projector", "clicks", {"admin_routes", "cli", "operations"}),
    ("projector", "operations", {"admin_routes", "cli"}),
]
# Crates whose modules import each other in one direction.
CRATES = ["core", "core/clicks", "core/event-store", "core/http", "core/service", "command-api", "projector", "query-api"]
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{.*", re.M | re.S)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
# The crate's root, by its name or by `super`, before one path or a group of paths.
ROOT = re.compile(r"\b(crate|super(?:\s*::\s*super)*)\s*::\s*(\{|\w+)")


def named_modules(text, depth_of_root=None):
    """Yields each module that follows the crate's root, with its offset in the text. With the number of `super` from
    the file to the root, paths that end below the root are left out."""
    for match in ROOT.finditer(text):
        if depth_of_root and match[1] != "crate" and match[1].count("super") != depth_of_root:
            continue
        if match[2] != "{":
            yield match[2], match.start(2)
            continue
        depth, begins = 1, True
        for token in re.finditer(r"[{},]|\w+", text[match.end():]):
            if token[0] == "{":
                depth += 1
            elif token[0] == "}":
                depth -= 1
                if depth == 0:
                    break
            elif token[0] == ",":
                begins = depth == 1
            elif begins and depth == 1:
                yield token[0], match.end() + token.start()
                begins = False


def breaches(file, forbidden):
    """Returns the lines of a file that name a forbidden module."""
    text = COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), file.read_text())
    return [
        f"{file}:{text.count(chr(10), 0, offset) + 1}: imports `{module}`"
        for module, offset in named_modules(text)
        if module in forbidden
    ]


def imports_of(crate):
    """Returns for each module at the top of a crate the modules that it imports, each with a file that does."""
    source = pathlib.Path(crate, "src")
    imports = {}
    for file in sorted(source.rglob("*.rs")):
        path = file.relative_to(source).with_suffix("").parts
        text = TESTS.sub("", COMMENT.sub("", file.read_text()))
        for module, _ in named_modules(text, len(path)):
            imports.setdefault(path[0], {}).setdefault(module, file)
    for module, imported in imports.items():
        imports[module] = {other: file for other, file in imported.items() if other in imports and other != module}
    return imports


def circle(imports):
    """Returns a shortest circle of imports as a list of modules, or None."""
    for start in sorted(imports):
        paths = [[start]]
        seen = set()
        while paths:
            path = paths.pop(0)
            for module in sorted(imports[path[-1]]):
                if module == start:
                    return path
                if module not in seen:
                    seen.add(module)
                    paths.append([*path, module])
    return None


def main():
    found = []
    for crate in CRATES:
        imports = imports_of(crate)
        if modules := circle(imports):
            steps = zip(modules, [*modules[1:], modules[0]])
            found += [f"{imports[module][other]}: `{module}` imports `{other}`, in a circle" for module, other in steps]
    for crate, folder, forbidden in RULES:
        source = pathlib.Path(crate, "src")
        files = [source / f"{folder}.rs", *sorted((source / folder).rglob("*.rs"))]
        for file in filter(pathlib.Path.is_file, files):
            found += breaches(file, forbidden)
    for breach in found:
        print(breach, file=sys.stderr)
    if found:
        print("move the shared code to the lower layer, or the file to the upper one", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
