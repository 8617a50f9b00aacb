#!/usr/bin/env bash
# Creates per second of a running stack, in a closed loop from this machine.
#
#   deploy/bench/creates.sh [SECONDS [CONNECTIONS [ACCOUNTS [ROUNDS]]]]
#
# Needs wrk (Debian: apt-get install wrk) and a stack started by `cargo run --release`, whose data
# folder is .linkledger or the folder in DATA_DIR.
set -euo pipefail

seconds=${1:-10} connections=${2:-64} accounts=${3:-100} rounds=${4:-5}
here=$(cd "$(dirname "$0")" && pwd)
set -a
. "${DATA_DIR:-.linkledger}/env"
set +a

cargo build --quiet --release --manifest-path "$here/../../Cargo.toml" -p linkledger-command-api
operator() {
    "$here/../../target/release/command-api" "$@" --json
}
value() {
    grep -o "\"$1\":\"[^\"]*\"" | cut -d'"' -f4
}

API_KEYS=
for number in $(seq "$accounts"); do
    account=$(operator account create --name "bench $number" | value account_id)
    operator credits grant --account "$account" --amount 100000000 --reason bench >/dev/null
    key=$(operator key issue --account "$account" --scope link:links.write | value api_key)
    API_KEYS+="$key "
done
export API_KEYS

for round in $(seq "$rounds"); do
    wrk --threads 1 --connections "$connections" --duration "${seconds}s" --latency \
        --script "$here/creates.lua" "$API_URL/v1/links" | grep creates/s
done
