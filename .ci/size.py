"""Prints how much there is to know: lines, tables, settings, metrics, and types that one file alone uses. No gate.

usage: .ci/size.py [COMMIT]    default: the work tree
"""

import re
import subprocess
import sys

PRODUCT = re.compile(r"^(core|core/(clicks|event-store|http|service)|command-api|projector|query-api)/src/.*\.rs$")
TESTS = re.compile(r"(^|/)tests?(/|\.rs$)")
UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:pub(?:\([^)]*\))? )?mod \w+ \{.*", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"^\s*pub(?:\([^)]*\))? (?:struct|enum|trait|type) (\w+)", re.MULTILINE)
WORD = re.compile(r"\w+")


class Sources:
    def __init__(self, commit):
        self.commit = commit
        listed = ["git", "ls-tree", "-r", "--name-only", commit] if commit else ["git", "ls-files"]
        self.paths = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]

    def read(self, path):
        if not self.commit:
            with open(path, encoding="utf-8") as file:
                return file.read()
        show = ["git", "show", f"{self.commit}:{path}"]
        return subprocess.run(show, check=True, capture_output=True, text=True).stdout

    def matching(self, pattern):
        return {path: self.read(path) for path in self.paths if re.search(pattern, path)}


def code_lines(text):
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("//"))


def types_of_one_file(product):
    """Returns the number of types, other than private ones, that no file uses but the one that defines them."""
    words = {path: set(WORD.findall(text)) for path, text in product.items()}
    defined = [(name, path) for path, text in product.items() for name in TYPE.findall(text)]
    return sum(
        all(name not in used for other, used in words.items() if other != path) for name, path in defined
    )


def sizes(sources):
    product = {
        path: UNIT_TESTS.sub("", text)
        for path, text in sources.matching(PRODUCT).items()
        if not TESTS.search(path.split("/src/")[1])
    }
    migrations = "".join(sources.matching(r"^migrations/.*\.sql$").values())
    tables = re.findall(r"^CREATE TABLE \w+\.\w+(?!\w|\s+PARTITION OF)", migrations, re.MULTILINE)
    settings = set(re.findall(r'\benv = "([A-Z_]+)"', "".join(product.values())))
    metrics = re.findall(r"^    [A-Z_]+ = (?:Counter|Gauge|Histogram) ", sources.read("core/service/src/metrics.rs"), re.MULTILINE)
    return [
        ("product: files", len(product)),
        ("product: lines of code, without tests and comments", sum(map(code_lines, product.values()))),
        ("all of Rust, tests too: lines", sum(text.count("\n") for text in sources.matching(r"\.rs$").values())),
        ("migrations: files", len(sources.matching(r"^migrations/.*\.sql$"))),
        ("tables", len(tables)),
        ("settings of the services", len(settings)),
        ("metrics", len(metrics)),
        ("types that one file alone uses", types_of_one_file(product)),
    ]


def main():
    for name, number in sizes(Sources(sys.argv[1] if len(sys.argv) > 1 else None)):
        print(f"{number:>9,}  {name}")


if __name__ == "__main__":
    main()
