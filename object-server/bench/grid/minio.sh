#!/bin/bash
# Runs MinIO's own benchmark of its grid (512-byte requests and answers, two servers) and ours beside it, in turn.
# MinIO's package is internal, so its benchmark runs in a copy of its source; nothing of it is in this repository.
# "vops/s" is the true rate times the number of servers: divide it by two.
# usage: minio.sh [rounds, default 3] [version of github.com/minio/minio]
set -euo pipefail
rounds=${1:-3} version=${2:-v0.0.0-20260212201848-7aac2a2c5b7c}
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
(cd "$(dirname "$0")" && go build -o "$dir/grid" .)
cd "$dir"
printf 'module scratch\ngo 1.24.0\n' >go.mod
source=$(go mod download -json "github.com/minio/minio@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
[ -n "$source" ] || { echo "skipped: MinIO $version cannot be had" >&2; exit 0; }
cp -r --no-preserve=mode "$source" minio
(cd minio && go test -c -o "$dir/minio.test" ./internal/grid)
cd minio/internal/grid
cpus=$(nproc)
for ((round = 1; round <= rounds; round++)); do
	"$dir/minio.test" -test.run '^$' -test.bench "BenchmarkRequests/servers=2\$/bytes/par=($cpus|$((8 * cpus))|$((32 * cpus)))\$" \
		-test.benchtime 2s -test.benchmem | grep -o '^Benchmark.*'
	"$dir/grid" -rounds 1 -seconds 2 -only requests -callers "$cpus,$((8 * cpus)),$((32 * cpus))"
done
