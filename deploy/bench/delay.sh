#!/usr/bin/env bash
# Delay from commit to consumer at half of the maximum load of a running stack.
#
#   deploy/bench/delay.sh [SECONDS [CONNECTIONS [ACCOUNTS]]]
#
# First the maximum, then half of it in an open loop; meanwhile deploy/bench/delay.py reads the topic.
# Needs a stack started by `cargo run --release`, whose data folder is .linkledger or the folder in
# DATA_DIR, and Python with venv (Debian: apt-get install python3-venv). BENCH names a
# linkledger-bench that is built, else target/release/linkledger-bench.
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

echo '== maximum'
line=$(creates --seconds 10)
echo "$line"
maximum=$(echo "$line" | grep -oP 'creates/s \K\d+')

echo '== half of it'
"$tools/bin/python" "$here/delay.py" "$seconds" &
reader=$!
creates --seconds "$seconds" --per-second $((maximum / 2))
wait $reader
