"""Runs the examples of README.md and of the pages for clients against a running stack.

Every block ```sh of a page is pasted into one shell, except lines that NOT_RUN names. Each command must
end with 0, and no answer may have a status of 400 or more.

usage: examples.py FOLDER DATA_FOLDER, from the root of the repository, with the programs on the PATH;
FOLDER is empty, DATA_FOLDER is the stack's
"""

import os
import pathlib
import re
import subprocess
import sys

PAGES = ("README.md", "docs/api.md", "docs/client.md", "docs/stack.md")
# Beginnings of lines that are not run, and what runs them instead.
NOT_RUN = {
    "cargo": ".ci/run, and the build of the programs on the PATH",
    "CORS_ALLOWED_ORIGINS": "the test stack_settings of deploy/local",
    "linkledger events --follow": "the tests client_events and client_walkthrough of deploy/local",
    "linkledger webhooks test": ".ci/check_webhooks.py, with receivers",
    "linkledger webhooks retry": "the test client_webhooks of deploy/local",
}


def main():
    folder, data_folder = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    (folder / ".linkledger").symlink_to(data_folder)
    environment = {**os.environ, "LINKLEDGER_DATA_DIR": ".linkledger"}
    pages = {page: pathlib.Path(page).read_text(encoding="utf-8") for page in PAGES}
    for page, text in pages.items():
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        lines = [line for block in blocks for line in block.splitlines() if not line.startswith(tuple(NOT_RUN))]
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=folder, env=environment, capture_output=True, text=True,
        )
        # Bodies of answers do not end with a new line.
        refused = re.search(r"HTTP/1\.1 [45]\d\d", run.stdout)
        if run.returncode != 0 or refused:
            print(run.stdout, run.stderr, sep="\n", file=sys.stderr)
            sys.exit(f"an example of {page} has failed")
        print(f"{page}: {len(lines)} lines")


if __name__ == "__main__":
    main()
