#!/usr/bin/env bash
# Measures the delay from commit to consumer, at half of the maximum load of a running stack.
#
#   deploy/bench/delay.sh [SECONDS [CONNECTIONS [ACCOUNTS]]]
#
# First measures the maximum rate of creates, then creates links at half of this rate, while deploy/bench/delay.py
# reads the topic. Needs Python with venv (Debian: apt-get install python3-venv), and a running stack
# (target/release/linkledger), with the data folder .linkledger or the folder in DATA_DIR. The variable BENCH names the program
# (default: target/release/linkledger-bench).
set -euo pipefail

seconds=${1:-20} connections=${2:-64} accounts=${3:-100}
here=$(cd "$(dirname "$0")" && pwd)
tools=$here/../../target/bench
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
set -a
. "${DATA_DIR:-.linkledger}/env"
set +a

creates() {
    "${BENCH:-$here/../../target/release/linkledger-bench}" load \
        --connections "$connections" --accounts "$accounts" "$@"
}

echo '== maximum rate'
line=$(creates --seconds 10)
echo "$line"
maximum=$(echo "$line" | grep -oP 'creates/s \K\d+')

echo '== half of the maximum rate'
"$tools/bin/python" "$here/delay.py" "$seconds" &
reader=$!
creates --seconds "$seconds" --per-second $((maximum / 2))
wait $reader
