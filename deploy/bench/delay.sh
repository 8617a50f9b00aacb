#!/usr/bin/env bash
# Delay from commit to consumer at half of the maximum load of a running stack.
#
#   deploy/bench/delay.sh [SECONDS [CONNECTIONS [ACCOUNTS]]]
#
# First the maximum (creates.sh), then half of it, with pauses between the requests of each
# connection; meanwhile deploy/bench/delay.py reads the topic.
# Needs what creates.sh needs, and Python with venv (Debian: apt-get install python3-venv).
set -euo pipefail

seconds=${1:-20} connections=${2:-64} accounts=${3:-100}
here=$(cd "$(dirname "$0")" && pwd)
tools=$here/../../target/bench
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
set -a
. "${DATA_DIR:-.linkledger}/env"
set +a

API_KEYS=$("$here/keys.sh" "$accounts")
export API_KEYS

echo '== maximum'
line=$("$here/creates.sh" 10 "$connections" "$accounts" 1)
echo "$line"
maximum=$(echo "$line" | grep -oP 'creates/s \K\d+')

echo '== half of it'
# A connection makes maximum / 2 / connections requests per second; the answer takes a part of it.
export PAUSE_MS=$((2 * connections * 1000 / maximum * 4 / 5))
"$tools/bin/python" "$here/delay.py" "$seconds" &
reader=$!
"$here/creates.sh" "$seconds" "$connections" "$accounts" 1
wait $reader
