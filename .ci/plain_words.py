#!/usr/bin/env python3
"""Checks comments and test names of Rust code against limits (CONTRIBUTING.md).

usage: plain_words.py [--list riddles|tests] [PATH ...]     default: all Rust files that git tracks

- riddles: doc comments of non-test code that begin with What, Whether, How, Who, Where, Which, Whose
- tests: names of test functions over 70 characters, and the median number of words in one
"""
import re
import statistics
import subprocess
import sys

RIDDLE_MAX, NAME_MAX, NAME_WORDS_MEDIAN_MAX = 0.03, 70, 7
RIDDLE = re.compile(r"(What|Whether|How|Who|Whom|Whose|Where|Which)\b")


def is_test_file(path):
    return bool(re.search(r"(^|/)(tests|fuzz|benches|testing)/|(^|/)tests\.rs$|(^|/)testing\.rs$", path))


def without_test_module(text):
    """The text before a test module at the end of a file."""
    at = re.search(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, re.M)
    return text[: at.start()] if at else text


def doc_blocks(text):
    """(line number, text) of each block of /// lines."""
    block, begin = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*/// ?(.*)", line)
        if found:
            if not block:
                begin = number
            block.append(found[1])
        elif block:
            yield begin, " ".join(block)
            block = []
    if block:
        yield begin, " ".join(block)


def main():
    args = sys.argv[1:]
    listed = None
    if args[:1] == ["--list"]:
        listed, args = args[1], args[2:]
    paths = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *(args or ["*.rs"])],
        check=True, capture_output=True, text=True,
    ).stdout.split()
    blocks = riddles = 0
    names = []
    for path in paths:
        if not path.endswith(".rs"):
            continue
        try:
            text = open(path, encoding="utf-8").read()
        except FileNotFoundError:
            continue
        tests = re.findall(r"#\[(?:tokio::|sqlx::)?test[^\]]*\](?:\s*#\[[^\]]*\])*\s*(?:async )?fn (\w+)", text)
        tests += re.findall(r"#\[test\]\s*fn (\w+)\([^)]* in ", text)
        for name in dict.fromkeys(tests):
            names.append(name)
            if listed == "tests" and len(name) > NAME_MAX:
                print(f"{path}: {name} ({len(name)})")
        if is_test_file(path):
            continue
        text = without_test_module(text)
        for number, block in doc_blocks(text):
            blocks += 1
            if RIDDLE.match(block):
                riddles += 1
                if listed == "riddles":
                    print(f"{path}:{number}: {block}")
    median = statistics.median([len(name.split("_")) for name in names]) if names else 0
    long = [name for name in names if len(name) > NAME_MAX]
    checks = [
        (f"doc comments that begin like a riddle: {riddles} of {blocks} ({riddles / max(blocks, 1):.1%}, at most {RIDDLE_MAX:.0%})",
         riddles <= RIDDLE_MAX * blocks),
        (f"test names over {NAME_MAX} characters: {len(long)} of {len(names)}; median words {median:g} (at most {NAME_WORDS_MEDIAN_MAX})",
         not long and median <= NAME_WORDS_MEDIAN_MAX),
    ]
    for line, is_right in checks:
        print(("ok    " if is_right else "OVER  ") + line)
    return 0 if all(is_right for _, is_right in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
