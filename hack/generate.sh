#!/usr/bin/env bash
# Rebuilds every committed object: the BPF programs and the init program. The compiler is pinned, so the result is the same
# byte for byte; with -check a difference to what is committed is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(clang-14 llvm-14 lld-14)
missing=()
for tool in clang-14 llvm-strip-14 ld.lld-14; do
	command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ "${#missing[@]}" != 0 ]; then
	echo "generate: missing ${missing[*]}" >&2
	echo "hint: apt-get install ${packages[*]}" >&2
	exit 1
fi

go generate ./...

if [ "${1:-}" = -check ] && ! git diff --stat --exit-code; then
	echo "generate: the committed objects differ from their sources; run make generate and commit the result" >&2
	exit 1
fi
