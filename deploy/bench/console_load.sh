#!/usr/bin/env bash
# Measures how long the console for owners of links takes to show a list of a million links, in headless Chromium:
# see console_load.py.
#
#   deploy/bench/console_load.sh [ROUNDS]
#
# Starts Postgres and the stack itself; needs target/release/linkledger-bench. Installs the tools of .ci/contract.
set -euo pipefail
cd "$(dirname "$0")/../.."

.ci/contract --tools
served=$(mktemp)
target/release/linkledger-bench serve-links >"$served" &
bench=$!
trap 'kill -INT $bench && wait $bench; rm -f "$served"' EXIT
# The first run makes the million links.
timeout 3600 sh -c "until [ -s '$served' ] || ! kill -0 $bench; do sleep 0.5; done"
read -r url key <"$served"
PYTHONPATH=.ci target/contract/bin/python deploy/bench/console_load.py "$url" "$key" "${1:-5}"
