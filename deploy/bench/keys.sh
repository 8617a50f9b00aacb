#!/usr/bin/env bash
# Prints API keys for a load, separated by spaces: one account each, with credits.
#
#   deploy/bench/keys.sh ACCOUNTS
#
# Works on DATABASE_URL. COMMAND_API names a command-api that is built; else the release is built.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "${COMMAND_API:-}" ]; then
    cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p linkledger-command-api
    COMMAND_API=$root/target/release/command-api
fi
operator() {
    "$COMMAND_API" "$@" --json
}
value() {
    grep -o "\"$1\":\"[^\"]*\"" | cut -d'"' -f4
}
for number in $(seq "$1"); do
    account=$(operator account create --name "bench $number" | value account_id)
    operator credits grant --account "$account" --amount 100000000 --reason bench >/dev/null
    operator key issue --account "$account" --scope link:links.write | value api_key
done | tr '\n' ' '
