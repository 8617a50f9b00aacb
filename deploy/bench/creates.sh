#!/usr/bin/env bash
# Creates per second of a running stack, in a closed loop from this machine.
#
#   deploy/bench/creates.sh [SECONDS [CONNECTIONS [ACCOUNTS [ROUNDS]]]]
#
# Needs wrk (Debian: apt-get install wrk) and a stack started by `cargo run --release`, whose data
# folder is .linkledger or the folder in DATA_DIR. API_KEYS gives keys that there are, instead of
# new ones for ACCOUNTS.
set -euo pipefail

seconds=${1:-10} connections=${2:-64} accounts=${3:-100} rounds=${4:-5}
here=$(cd "$(dirname "$0")" && pwd)
set -a
. "${DATA_DIR:-.linkledger}/env"
set +a
API_KEYS=${API_KEYS:-$("$here/keys.sh" "$accounts")}
export API_KEYS

for round in $(seq "$rounds"); do
    wrk --threads 1 --connections "$connections" --duration "${seconds}s" --latency \
        --script "$here/creates.lua" "$API_URL/v1/links" | grep creates/s
done
