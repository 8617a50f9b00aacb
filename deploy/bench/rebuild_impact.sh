#!/usr/bin/env bash
# Measures the impact of `projector rebuild --all` on callers, at half of the maximum load of a running stack:
# creates per second, their p99, and the lag of the served read model, in turn without and with a rebuild.
#
#   deploy/bench/rebuild_impact.sh [EVENTS [SECONDS [ROUNDS [CONNECTIONS [ACCOUNTS]]]]]
#
# First creates fill the log up to EVENTS (default: 1,000,000). The variable REBUILD_OPTIONS has further options
# of `projector rebuild --all`. During the rebuild a client pages through a list and checks each scan.
# Needs psql, Python, and a running stack (target/dist/linkledger), with the data folder .linkledger or the folder
# in DATA_DIR. The variables BENCH and PROJECTOR name the programs (default: those in target/dist).
set -euo pipefail

events=${1:-1000000} seconds=${2:-30} rounds=${3:-3} connections=${4:-64} accounts=${5:-100}
here=$(cd "$(dirname "$0")" && pwd)
set -a
. "${DATA_DIR:-.linkledger}/env"
set +a
programs=$here/../../target/dist
export PROJECTOR=${PROJECTOR:-$programs/projector}
creates=("${BENCH:-$programs/linkledger-bench}" load --connections "$connections" --accounts "$accounts")

echo "== a log of $events events"
heads() {
    psql "$DATABASE_URL" -Atc 'SELECT sum(head) FROM event_store.log_shards'
}
maximum=
until [ -n "$maximum" ] && [ "$(heads)" -ge "$events" ]; do
    line=$("${creates[@]}" --seconds 10)
    maximum=$(echo "$line" | grep -oP 'creates/s \K\d+')
done
echo "$(heads) events; maximum rate: $line"

echo '== half of the maximum rate'
python3 "$here/rebuild_impact.py" "$rounds" \
    "${creates[@]}" --seconds "$seconds" --per-second $((maximum / 2))
