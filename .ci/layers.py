#!/usr/bin/env python3
"""Fails if a folder of a crate imports a folder of the same crate above its own layer.

usage: layers.py

A folder that does not exist is skipped.
"""
import pathlib
import re
import sys

# Crate; folder; the modules that no file of the folder may name.
RULES = [
    ("projector", "pipeline", {"clicks", "operations", "surfaces"}),
    ("projector", "read_models", {"clicks", "operations", "surfaces"}),
    ("projector", "clicks", {"operations", "surfaces"}),
    ("projector", "operations", {"surfaces"}),
]
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
# The crate's root, by its name or by `super`, before one path or a group of paths.
ROOT = re.compile(r"\b(?:crate|super(?:\s*::\s*super)*)\s*::\s*(\{|\w+)")


def named_modules(text):
    """Yields each module that follows the crate's root, with its offset in the text."""
    for match in ROOT.finditer(text):
        if match[1] != "{":
            yield match[1], match.start(1)
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


def main():
    found = []
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
