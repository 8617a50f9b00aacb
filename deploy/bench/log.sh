#!/usr/bin/env bash
# Events per second of `command-api log verify` and `log export`, on a log that is made for it.
#
#   deploy/bench/log.sh [LINKS [ACCOUNTS]]
#
# Makes a database beside the one of DATABASE_URL (its owner's; the env of a running stack has one),
# with a link and its charge for each of LINKS, and drops it at the end. Needs psql and
# target/release/command-api (or COMMAND_API).
set -euo pipefail

links=${1:-1000000} accounts=${2:-64}
here=$(cd "$(dirname "$0")" && pwd)
command_api=${COMMAND_API:-$here/../../target/release/command-api}
server=$DATABASE_URL
database=linkledger_bench_log_$$
folder=$(mktemp -d)
trap 'rm -rf "$folder"; psql -q "$server" -c "DROP DATABASE IF EXISTS $database WITH (FORCE)"' EXIT
psql -q "$server" -c "CREATE DATABASE $database"
DATABASE_URL=$(sed -E "s#^([a-z]+://[^/]*/)[^?]*#\1$database#" <<<"$server")
export DATABASE_URL
"$command_api" migrate

for number in $(seq "$accounts"); do
    "$command_api" account create --name "bench $number" --json
done | sed -E 's/.*"account_id":"([^"]*)".*/\1/' > "$folder/accounts"
psql -q "$DATABASE_URL" -v ON_ERROR_STOP=1 -v links=$((links / accounts)) -f - <<SQL
CREATE TEMP TABLE account_texts (number serial, text text);
\copy account_texts (text) from '$folder/accounts'
\i $here/log.sql
SQL
echo "$("$command_api" log verify)   (first run: not in memory yet)"
for _ in 1 2 3; do
    "$command_api" log verify
done
"$command_api" log export --to "$folder/export"
