#!/bin/bash
# Runs bench/commit under every sync method on file systems in loop images, and prints one JSON line for each run.
# usage: commit.sh [directory for the images, default /tmp] [PUTs, default 20000] [objects stored, replaced and compacted
# before, default 0]; needs root, loop devices and mkfs.
set -euo pipefail
where=${1:-/tmp} puts=${2:-20000} fill=${3:-0} size=4G
[ "$fill" = 0 ] || size=9G
skip() { echo "skipped: $1" >&2; exit 0; }
[ "$(id -u)" = 0 ] || skip "only root may mount images"
[ -e /dev/loop-control ] || skip "there are no loop devices here"
dir=$(mktemp -d "$where/martlet-commit.XXXXXX")
loop=
finish() {
	if mountpoint -q "$dir/mnt"; then umount "$dir/mnt"; fi
	if [ -n "$loop" ]; then losetup -d "$loop"; fi
	rm -rf "$dir"
}
trap finish EXIT
mkdir "$dir/mnt"
(cd "$(dirname "$0")/.." && go build -o "$dir/commit" ./bench/commit)
for mkfs in "mkfs.xfs -q" "mkfs.xfs -q -b size=1024" "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0"; do
	command -v "${mkfs%% *}" >/dev/null || { echo "skipped: ${mkfs%% *} is missing" >&2; continue; }
	for method in auto fdatasync direct journal; do
		truncate -s "$size" "$dir/image"
		loop=$(losetup -f --show "$dir/image") || skip "no loop device is free"
		$mkfs "$loop"
		mount "$loop" "$dir/mnt"
		mkdir "$dir/mnt/d"
		echo -n "$mkfs: "
		"$dir/commit" -device "$dir/mnt/d" -method "$method" -puts "$puts" -fill "$fill" -recycled "$((fill * 10000))" -json
		umount "$dir/mnt"
		losetup -d "$loop"
		loop=
		rm "$dir/image"
	done
done
