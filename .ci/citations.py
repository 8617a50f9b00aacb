#!/usr/bin/env python3
"""Proves that what documents and comments cite exists in the repository.

Reads every file that git tracks (or would track) and prints one line `file:line: finding` for each
citation that leads nowhere; the exit code is then 1. Merged migrations are frozen and not read.

    .ci/citations.py            checks the whole repository
    .ci/citations.py FILE ...   prints the findings of these files only

| cited in | citation | must be |
|---|---|---|
| Markdown | link to a path, with or without #anchor | a file or folder; a heading of that page, by GitHub's rule |
| Markdown, comments of Rust | inline code that looks like a path | a file or folder, from the root, from the citing folder, or the end of one path |
| every file | docs/….md, README.md#…, with or without #anchor | a page, and a heading of that page |
| Markdown, comments of Rust | snake_case, CamelCase, a::b in inline code | a word of the code without its comments; b must be in a file that has a |
| Markdown | inline code "in" a path: `a` in `b.rs` | a word of that file |
| Markdown, comments | I7, ADR 7 | a row of docs/invariants.md, a file of docs/adr |
| every file | "contract §7", "section 7 of the contract" | absent: readers do not have that document |
"""

import fnmatch
import re
import subprocess
import sys
from collections import defaultdict
from functools import lru_cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
FROZEN = "migrations/"  # merged migrations are never edited, comments included
NOT_READ = ("Cargo.lock", ".sqlx/", "deploy/local/tests/data/", "core/fuzz/corpus/")
CODE_SUFFIXES = (".rs", ".sql", ".toml", ".py", ".sh", ".yaml", ".yml", ".json", ".js", ".css", ".html")
PATH_SUFFIXES = CODE_SUFFIXES + (".md", ".conf", ".service", ".txt", ".svg")

# Paths that are cited on purpose although the repository does not have them: (pattern, reason).
ABSENT_PATHS = (
    ("target/*", "made by cargo"),
    (".linkledger*", "data folder of the local stack"),
    ("docs/adr/NNNN-*", "pattern of a name"),
    ("YYYYMMDDHHMMSS_verb_object.sql", "pattern of a name"),
    ("deploy/secrets/*", "written by deploy/make-secrets"),
    ("kafka-*.sh", "a tool of Apache Kafka"),
    ("nginx.conf", "a file of nginx"),
    ("robots.txt", "a reserved slug"),
)
# Identifiers that are cited on purpose although the code does not have them: name -> reason.
ABSENT_NAMES = {
    "set_real_ip_from": "a setting of nginx",
    "real_ip_header": "a setting of nginx",
    "worker_rlimit_nofile": "a setting of nginx",
    "local_ratelimit": "a filter of Envoy",
    "tcp_orphan_retries": "a setting of Linux",
    "ProducerAppendInfo": "a class of Apache Kafka",
    "invalid_password": "a condition of Postgres",
    "cannot_connect_now": "a condition of Postgres",
    "lock_not_available": "a condition of Postgres",
    "protocol_violation": "a condition of Postgres",
    "pg_dump": "a program of Postgres",
    "synchronous_standby_names": "a setting of Postgres",
    "SyncRep": "a wait event of Postgres",
    "pg_waldump": "a program of Postgres",
    "pg_rewind": "a program of Postgres",
    "pg_upgrade": "a program of Postgres",
    "try_init": "a function of tracing-subscriber",
}


def main():
    wanted = set(sys.argv[1:])
    tree = Tree()
    findings = []
    for path in tree.text_files:
        if path.startswith(FROZEN) and path.endswith(".sql"):
            continue
        if wanted and path not in wanted:
            continue
        findings += [(path, line, what) for line, what in check(tree, path)]
    for path, line, what in findings:
        print(f"{path}:{line}: {what}")
    if findings:
        print(f"{len(findings)} citations lead nowhere", file=sys.stderr)
    return 1 if findings else 0


def check(tree, path):
    text = tree.text(path)
    if path.endswith(".md"):
        yield from check_markdown(tree, path, text)
    elif path.endswith(".rs"):
        yield from check_rust(tree, path, text)
    if path != ".ci/citations.py":  # the examples at its head
        yield from check_any(tree, path, text)


# --- The three kinds of files ---------------------------------------------------------------


def check_markdown(tree, path, text):
    for number, line in prose_lines(text):
        without_code = re.sub(r"`[^`]*`", "", line)
        for target in re.findall(r"\]\(<?([^)\s>]+)>?\)", without_code):
            yield from at(number, tree.link_fault(path, target))
        for target in re.findall(r"^\[[^\]]+\]:\s+(\S+)", without_code):
            yield from at(number, tree.link_fault(path, target))
        for code in re.findall(r"`([^`]+)`", line):
            yield from at(number, tree.code_fault(path, code))
        for name, file in re.findall(r"`([\w:]+)`,? in `([\w/.-]+\.rs)`", line):
            yield from at(number, tree.place_fault(path, name, file))
        yield from numbered_citations(tree, number, without_code)


def check_rust(tree, path, text):
    for first, comment in rust_comments(text):
        for match in re.finditer(r"`([^`]+)`", comment):
            number = first + comment.count("\n", 0, match.start())
            # rustdoc proves links: [`Name`].
            if not comment.endswith("[", 0, match.start()):
                yield from at(number, tree.code_fault(path, match.group(1)))
        for number, line in enumerate(comment.split("\n"), first):
            yield from numbered_citations(tree, number, line)


PAGE = re.compile(r"(?<![\w/.-])((?:docs/[\w./-]+|README|ARCHITECTURE|CONTRIBUTING|SECURITY|CHANGELOG)\.md)(#[\w-]+)?")
CONTRACT = re.compile(r"contract(?:'s)?,? (?:§|section)|section \d+ of the contract|§ ?\d", re.IGNORECASE)


def check_any(tree, path, text):
    for match in CONTRACT.finditer(text) if "§" in text or "ontract" in text else ():
        number = text.count("\n", 0, match.start()) + 1
        yield number, f"'{match.group()}' cites a document that readers do not have; link to docs/api.md"
    if path.endswith(".md"):
        return  # links and inline code of Markdown are checked one by one
    for match in PAGE.finditer(text):
        page, anchor = match.groups()
        number = text.count("\n", 0, match.start()) + 1
        if page not in tree.files:
            if not tree.is_end_of_a_path(page):
                yield number, f"there is no page {page}"
        elif anchor:
            yield from at(number, tree.anchor_fault(page, anchor[1:]))


def numbered_citations(tree, number, text):
    for invariant in re.findall(r"\bI\d{1,2}\b", text):
        if invariant not in tree.invariants():
            yield number, f"there is no invariant {invariant} in docs/invariants.md"
    for adr in re.findall(r"\bADR (\d+)\b", text):
        if not any(file.startswith(f"docs/adr/{int(adr):04}-") for file in tree.files):
            yield number, f"there is no ADR {adr} in docs/adr"


def at(number, fault):
    if fault:
        yield number, fault


# --- The repository -------------------------------------------------------------------------


class Tree:
    """The files of the repository, and the words of its code."""

    def __init__(self):
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout
        self.files = {name for name in listing.split("\0") if name and (ROOT / name).is_file()}
        self.folders = {str(parent) for name in self.files for parent in PurePosixPath(name).parents} - {"."}
        self.ends = defaultdict(set)
        for name in self.files | self.folders:
            self.ends[PurePosixPath(name).name].add(name)
        self.texts = {}
        self.text_files = sorted(name for name in self.files if self.text(name) is not None)
        self.code = {}
        self.words = set()
        for name in self.text_files:
            if not name.endswith(".md") and name != ".ci/citations.py":
                code = strip_comments(self.text(name)) if name.endswith(".rs") else self.text(name)
                self.code[name] = code
                self.words.update(re.findall(r"\w+", code))

    def text(self, name):
        if name not in self.files or name.startswith(NOT_READ):
            return None
        if name not in self.texts:
            try:
                self.texts[name] = (ROOT / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                self.texts[name] = None
        return self.texts[name]

    # Paths and anchors.

    def link_fault(self, path, target):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            return None
        file, _, anchor = target.partition("#")
        name = path if not file else normal(PurePosixPath(path).parent / file)
        if name not in self.files and name not in self.folders and name != ".":
            return f"the link leads to {name}, which does not exist"
        return self.anchor_fault(name, anchor) if anchor and name.endswith(".md") else None

    def anchor_fault(self, page, anchor):
        return None if anchor in anchors(self.text(page)) else f"{page} has no heading #{anchor}"

    def path_fault(self, path, cited):
        cited = re.sub(r":\d+$", "", cited).rstrip("/")
        if any(fnmatch.fnmatch(cited, pattern) for pattern, _ in ABSENT_PATHS):
            return None
        cited, _, anchor = cited.partition("#")
        for alternative in braces(re.sub(r"<[^>]+>|…|\{\w+\}", "*", cited)):
            found = self.find(path, alternative)
            if not found:
                return f"there is no {cited}"
            if anchor and (fault := self.anchor_fault(found, anchor)):
                return fault
        return None

    def find(self, path, cited):
        if "*" in cited:
            names = self.files | self.folders
            hit = next((n for n in names if fnmatch.fnmatch(n, cited) or fnmatch.fnmatch(n, "*/" + cited)), None)
            return hit or self.find(path, str(PurePosixPath(cited).parent))
        here = normal(PurePosixPath(path).parent / cited)
        for name in (cited, here):
            if name in self.files or name in self.folders:
                return name
        return None if cited.split("/")[0] in self.folders else self.is_end_of_a_path(cited)

    def is_end_of_a_path(self, cited):
        ends = self.ends[PurePosixPath(cited).name]
        return next((name for name in ends if name.endswith("/" + cited)), None)

    # Identifiers.

    def place_fault(self, path, name, file):
        found = self.find(path, file)
        words = set(re.findall(r"\w+", self.code.get(found, "")))
        missing = [part for part in name.split("::")[-1:] if part not in words]
        return f"there is no `{missing[0]}` in {file}" if found and missing else None

    def code_fault(self, path, code):
        if looks_like_a_path(self, code):
            return self.path_fault(path, code)
        # Metrics are named without the prefix in core/service/src/metrics.rs.
        if re.fullmatch(r"(acc|ent|evt|key|lnk)_[0-9a-z]{26}", code):
            return None  # an id
        name = code.removesuffix("()").removesuffix("!").removeprefix("linkledger_")
        if name in ABSENT_NAMES or name in self.words:
            return None
        if re.fullmatch(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)+", name):
            return self.qualified_fault(name)
        if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+|([A-Z][a-z0-9]+){2,}", name):
            return f"there is no `{name}` in the code"
        return None

    def qualified_fault(self, name):
        *_, owner, member = name.split("::")
        outer = name.split("::")[0]
        if member not in self.words:
            return f"there is no `{name}` in the code: no word `{member}`"
        if outer in foreign_crates():
            return None
        if not any(re.search(rf"\b{member}\b", self.code[file]) for file in self.owners(owner)):
            return f"there is no `{name}` in the code: `{member}` is not in `{owner}`"
        return None

    @lru_cache(maxsize=None)
    def owners(self, owner):
        """The files that define the type or module, or implement the type."""
        defined = re.compile(rf"\b(?:struct|enum|trait|type|mod|impl(?:<.*?>)?(?: [\w:<>, ]+ for)?) {owner}\b")
        return [
            file
            for file, code in self.code.items()
            if file.endswith(".rs")
            and (owner in code and defined.search(code) or f"/{owner}.rs" in file or f"/{owner}/" in file
                 or file.startswith(f"{owner.removeprefix('linkledger_').replace('_', '-')}/"))
        ]

    @lru_cache(maxsize=None)
    def invariants(self):
        text = self.text("docs/invariants.md") or ""
        return set(re.findall(r"^\| (I\d+) \|", text, re.MULTILINE))


@lru_cache(maxsize=None)
def foreign_crates():
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    names = {name.replace("-", "_") for name in re.findall(r'^name = "([^"]+)"', lock, re.MULTILINE)}
    return {name for name in names if not name.startswith("linkledger")} | set(
        "std core alloc bool char str i8 i16 i32 i64 u8 u16 u32 u64 usize f64".split()
    )


def looks_like_a_path(tree, code):
    """True if inline code is a path of the repository rather than a command, an address or a value."""
    if not re.fullmatch(r"[\w.*/<>{},…#:-]+", code) or code.startswith(("/", "--", "*", "{")) or "::" in code:
        return False
    if "//" in code or code.endswith((":", "…")) and "/" not in code:
        return False
    top = code.split("/")[0]
    if "/" in code and (top in tree.folders or f"{top}/" in FROZEN):
        return True
    return bool(re.search(r"[\w>*}]\.\w+$", code.split("#")[0])) and code.split("#")[0].endswith(PATH_SUFFIXES)


# --- Text -----------------------------------------------------------------------------------


@lru_cache(maxsize=None)
def anchors(text):
    """The anchors of a page, by GitHub's rule."""
    seen = defaultdict(int)
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for _, line in prose_lines(text):
        heading = re.match(r"#{1,6} +(.*?)(?: +#+)?$", line)
        if not heading:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
        title = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).strip().lower())
        slug = title.replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def prose_lines(text):
    """The lines of Markdown that are not in a fenced block, with their numbers."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r" *(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence):
            fence = None
        elif fence is None:
            yield number, line


COMMENT_OR_TEXT = re.compile(
    r'r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//[^\n]*|/\*.*?\*/', re.DOTALL
)


def strip_comments(code):
    return COMMENT_OR_TEXT.sub(lambda match: "" if match.group().startswith("/") else match.group(), code)


def rust_comments(code):
    """Each block of comment lines with the number of its first line; fenced code left blank."""
    number, end, first, block = 1, 0, 0, []
    for match in COMMENT_OR_TEXT.finditer(code):
        number += code.count("\n", end, match.start())
        end = match.start()
        if not match.group().startswith("//"):
            continue
        if block and number != first + len(block):
            yield first, prose("\n".join(block))
            block = []
        first = number if not block else first
        block.append(match.group().lstrip("/!"))
    if block:
        yield first, prose("\n".join(block))


def prose(text):
    kept = dict(prose_lines(text))
    return "\n".join(kept.get(number, "") for number in range(1, text.count("\n") + 2))


def braces(pattern):
    """Expands a{b,c} to ab and ac."""
    match = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if not match:
        return [pattern]
    head, tail = pattern[: match.start()], pattern[match.end():]
    return [name for middle in match.group(1).split(",") for name in braces(head + middle + tail)]


def normal(path):
    parts = []
    for part in PurePosixPath(path).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts) or "."


if __name__ == "__main__":
    sys.exit(main())
