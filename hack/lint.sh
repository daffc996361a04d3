#!/usr/bin/env bash
# Checks that need no kernel: format, vet, staticcheck, shell syntax. Prints what is wrong and ends with 1.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0

unformatted=$(gofmt -l bpf cmd hack profiles runner sandbox test)
if [ -n "$unformatted" ]; then
	printf 'lint: not formatted (gofmt -w):\n%s\n' "$unformatted" >&2
	bad=1
fi

go vet ./... || bad=1
for arch in amd64 arm64; do
	GOOS=linux GOARCH=$arch go build -o /dev/null ./cmd/lockbox ./cmd/lockbox-runner 2>/dev/null ||
		GOOS=linux GOARCH=$arch go build ./cmd/... || { echo "lint: does not build for $arch" >&2; bad=1; }
done

# Pinned. The first use fetches it; without a network that is said, and is not a pass.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
if [ "${1:-}" != -offline ]; then
	go run "$staticcheck" ./... || { echo "lint: staticcheck failed (only its first run needs the network; hack/lint.sh -offline leaves it out)" >&2; bad=1; }
fi

while IFS= read -r f; do
	case $(head -c 64 "$f" | head -1) in
	*bash*) bash -n "$f" || bad=1 ;;
	*sh*) sh -n "$f" || bad=1 ;;
	esac
done < <(git ls-files -- '*.sh' .ci/run)

[ "$bad" = 0 ] && echo "lint: ok"
exit "$bad"
