#!/bin/sh
# Starts PostgreSQL, Temporal's own server and aycoder-worker on this machine, without containers, and ends them together.
#
#	contrib/worker/start.sh DIR [OPTION OF aycoder-worker]…
#
# DIR keeps the data and the programs, which are built there the first time: Temporal's server takes minutes, and 190 MB. PostgreSQL is that
# of the system (Debian: apt-get install postgresql). It refuses to run as root, so root runs it as the user postgres. Without options,
# the worker listens on 127.0.0.1:8080 with a model that only says that it works, for the tenant "local", whose token is in DIR/tenants:
#
#	curl -H "Authorization: Bearer $(cut -d' ' -f1 DIR/tenants)" -d '{"prompt":"hello"}' http://127.0.0.1:8080/api/prompt
set -eu
[ $# -ge 1 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
pg=${PGBIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)}
[ -x "$pg/postgres" ] || { echo "PostgreSQL is missing: apt-get install postgresql, or set PGBIN" >&2; exit 1; }
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; else "$@"; fi; }
port=${PGPORT:-7832}         # of the socket of PostgreSQL; it listens on no network
temporal=${TEMPORAL_PORT:-7233}

mkdir -p "$dir/bin" "$dir/pg" "$dir/work"
[ -x "$dir/bin/server" ] || go build -C "$here/../temporal/chaos/server/tools" -ldflags '-s -w' -o "$dir/bin/" \
	go.temporal.io/server/cmd/server go.temporal.io/server/cmd/tools/sql
go build -C "$here" -o "$dir/bin/aycoder-worker" ./aycoder-worker
[ "$(id -u)" != 0 ] || chown postgres "$dir/pg"
chmod 700 "$dir/pg"
[ -e "$dir/pg/data/PG_VERSION" ] || as "$pg/initdb" -D "$dir/pg/data" -U postgres -A trust >"$dir/initdb.log"
[ -e "$dir/tenants" ] || (umask 077 && echo "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') local" >"$dir/tenants")

children=
end() {
	trap - EXIT INT TERM
	# The worker first, which drains, and PostgreSQL last.
	for child in $children; do
		kill "$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	done
}
trap end EXIT
trap 'exit 0' INT TERM

(cd / && as "$pg/postgres" -D "$dir/pg/data" -k "$dir/pg" -p "$port" -c listen_addresses= -c max_connections=200) >"$dir/postgres.log" 2>&1 &
children="$!"
until "$pg/pg_isready" -q -h "$dir/pg" -p "$port" -U postgres; do
	kill -0 "${children%% *}" || { cat "$dir/postgres.log"; exit 1; }
	sleep 0.1
done
for name in temporal visibility; do
	sql() { "$dir/bin/sql" --plugin postgres12_pgx --endpoint localhost --port "$port" --user postgres --database "temporal_$name" \
		--connect-attributes "host=$dir/pg" "$@" >>"$dir/schema.log" 2>&1; }
	if [ ! -e "$dir/$name.made" ]; then
		sql create-database && sql setup-schema -v 0.0 || { cat "$dir/schema.log"; exit 1; }
		touch "$dir/$name.made"
	fi
	sql update-schema --schema-name "postgresql/v12/$name" || { cat "$dir/schema.log"; exit 1; }
done
cat >"$dir/dynamic.yaml" <<END
matching.enableFairness: [{value: true}]
history.transferProcessorMaxPollRPS: [{value: 1000}]
END
sed -e "s|@DIR@|$dir|g; s|@PG@|$port|g; s|@FRONTEND@|$temporal|g; s|@HISTORY@|$((temporal + 1))|g; s|@MATCHING@|$((temporal + 2))|g" \
	-e "s|@WORKER@|$((temporal + 3))|g; s|@RING@|$((temporal - 300))|g; s|@RING1@|$((temporal - 299))|g; s|@RING2@|$((temporal - 298))|g; s|@RING3@|$((temporal - 297))|g" \
	"$here/temporal.yaml" >"$dir/temporal.yaml"
"$dir/bin/server" --config-file "$dir/temporal.yaml" --allow-no-auth start >"$dir/temporal.log" 2>&1 &
children="$! $children"
until "$dir/bin/aycoder-worker" -register -temporal "127.0.0.1:$temporal" 2>"$dir/wait.log"; do
	kill -0 "${children%% *}" || { tail -20 "$dir/temporal.log"; exit 1; }
	sleep 0.5
done
"$dir/bin/aycoder-worker" -database "host=$dir/pg port=$port user=postgres dbname=postgres" -temporal "127.0.0.1:$temporal" \
	-workspaces "$dir/work" -tenants "$dir/tenants" -model script "$@" &
worker=$!
children="$worker $children"
wait "$worker"
