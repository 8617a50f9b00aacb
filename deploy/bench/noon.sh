#!/usr/bin/env bash
# What callers notice of a rebuild of all projections, at half of the maximum load of a running
# stack: creates per second, their p99, and the lag of what is served; without and with it, in turn.
#
#   deploy/bench/noon.sh [EVENTS [SECONDS [ROUNDS [CONNECTIONS [ACCOUNTS]]]]]
#
# First it fills the log up to EVENTS (1,000,000), by creates. REBUILD_OPTIONS are given to
# `projector rebuild --all`. Meanwhile a client pages through a list and checks each scan.
# Needs a stack started by `cargo run --release`, whose data folder is .linkledger or the folder in
# DATA_DIR, psql and Python. BENCH and PROJECTOR name programs that are built, else those in
# target/release.
set -euo pipefail

events=${1:-1000000} seconds=${2:-30} rounds=${3:-3} connections=${4:-64} accounts=${5:-100}
here=$(cd "$(dirname "$0")" && pwd)
set -a
. "${DATA_DIR:-.linkledger}/env"
set +a
programs=$here/../../target/release
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
echo "$(heads) events; maximum at its end: $line"

echo '== half of the maximum'
python3 "$here/noon.py" "$rounds" \
    "${creates[@]}" --seconds "$seconds" --per-second $((maximum / 2))
