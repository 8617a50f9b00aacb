#!/usr/bin/env bash
# Measures the impact of an operator's command on callers, at half of the maximum load of a running stack: creates
# per second, their p99, and the lag of the served read model, in turn without and with the command.
#
#   deploy/bench/command_impact.sh COMMAND [EVENTS [SECONDS [ROUNDS [CONNECTIONS [ACCOUNTS]]]]]
#
# COMMAND is one word for the shell, such as 'target/release/projector rebuild --all'. A command that works only once,
# such as 'target/release/command-api migrate' on the stack of an earlier release, needs 1 as ROUNDS, and SECONDS near its
# duration: the creates after its end belong to its last round.
# First creates fill the log up to EVENTS (default: 1,000,000). During the command a client pages through a list and
# checks each scan.
# Needs psql, Python, and a running stack (target/release/linkledger), with the data folder .linkledger or the folder
# in DATA_DIR. The variable BENCH names the load generator (default: target/release/linkledger-bench).
set -euo pipefail

command=$1 events=${2:-1000000} seconds=${3:-30} rounds=${4:-3} connections=${5:-64} accounts=${6:-100}
here=$(cd "$(dirname "$0")" && pwd)
set -a
. "${DATA_DIR:-.linkledger}/env"
set +a
bench=${BENCH:-$here/../../target/release/linkledger-bench}
creates=("$bench" load --connections "$connections" --accounts "$accounts")

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
python3 "$here/command_impact.py" "$rounds" "$command" \
    "${creates[@]}" --seconds "$seconds" --per-second $((maximum / 2))
