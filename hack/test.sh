#!/usr/bin/env bash
# All tiers of the tests. It alone decides: its exit status is the answer and its last line counts.
#
#   hack/test.sh            lint, unit, kernel tests on this host, kernel tests on both VM kernels
#   hack/test.sh -vm        only the VMs
#   hack/test.sh -update    all, and write the committed numbers anew
#
# Root runs everything. An ordinary user runs what needs no root; the rest is named with the command for it, and the
# exit status is then not 0. CI=true also rebuilds the generated files and refuses LOCKBOX_ALLOW_SKIP.
set -euo pipefail
cd "$(dirname "$0")/.."

kernels=(6.1 6.12)
vm_packages=()
for p in ./sandbox ./sandbox/script ./sandbox/seccomp ./sandbox/netns ./runner ./runner/slot ./runner/egress ./runner/engine ./bpf/egress; do
	compgen -G "$p/*_test.go" >/dev/null && vm_packages+=("$p")
done
out=.cache/test
host=1 vm=1 update=() vm_update=()
case ${1:-} in
-vm) host=0 ;;
-update) update=(-update) vm_update=(--update) ;;
'') ;;
*) sed -n '2,9p' "$0"; exit 2 ;;
esac

if [ -n "${CI:-}" ] && [ -n "${LOCKBOX_ALLOW_SKIP:-}" ]; then
	echo "test: LOCKBOX_ALLOW_SKIP is not allowed where CI is set" >&2
	exit 2
fi

say() { printf '%s test: %s\n' "$(date +%T)" "$*"; }

# What the tests need, as command=package.
needs() {
	local want=(git=git file=file python3=python3 node=nodejs bwrap=bubblewrap cc=gcc
		qemu-system-x86_64=qemu-system-x86 busybox=busybox-static cpio=cpio) missing=() w
	for w in "${want[@]}"; do
		command -v "${w%%=*}" >/dev/null || missing+=("${w#*=}")
	done
	[ "${#missing[@]}" = 0 ] && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing ${missing[*]}"
		apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null ||
			{ apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null; }
		return
	fi
	say "missing packages; they come with: sudo apt-get install ${missing[*]}" >&2
	return 1
}

# The guests have no Go tool chain, so the whole-binary test carries the programs inside it.
build_guest() {
	mkdir -p "$out/bin" test/escape/embedded
	go build -trimpath -ldflags='-s -w' -o test/escape/embedded/ ./cmd/lockbox ./cmd/lockbox-runner ./test/escape/probe
	go test -c -trimpath -ldflags='-s -w' -tags embedded -o "$out/bin/test-escape.test" ./test/escape
}

start_guests() {
	local k
	for k in "${kernels[@]}"; do
		mkdir -p "$out/vm-$k"
		( rc=0
		VM_LIMIT=1800 hack/vm/run.sh --per 900 --out "$out/vm-$k" "${vm_update[@]}" "$k" "${vm_packages[@]}" "$out/bin/test-escape.test" >"$out/vm-$k/run.log" 2>&1 || rc=$?
		echo $rc >"$out/vm-$k/rc" ) &
	done
}

export CGO_ENABLED=0
rm -rf "$out"
mkdir -p "$out"
failed=0 tallies=()

if ! needs; then
	failed=1 vm=0
fi
if [ "$(id -u)" != 0 ] && [ "$host" = 1 ]; then
	say "an ordinary user: the packages that need no root"
	go test -json -count=1 ./profiles/... ./sandbox/seccomp ./cmd/... ./hack/... ./test/escape 2>&1 | go run ./hack/testcount stream "$out/host.tally" || failed=1
	go run ./hack/testcount sum "$out/host.tally" || failed=1
	say "kernel and VM tiers need root: sudo make test" >&2
	exit 1
fi

if [ "$vm" = 1 ]; then
	say "building for the guests"
	build_guest
	say "starting ${kernels[*]} in the background"
	start_guests
fi

if [ "$host" = 1 ]; then
	say "lint"
	hack/lint.sh || failed=1
	if [ -n "${CI:-}" ]; then
		say "generate"
		hack/generate.sh -check || failed=1
	fi
	say "tests on this host"
	# One package at a time: kernel tests look for what others left behind.
	go test -json -count=1 -p 1 -timeout 15m ./... 2>&1 | go run ./hack/testcount stream "$out/host.tally" || failed=1
	tallies+=("$out/host.tally")
	say "each benchmark once"
	go test -count=1 -p 1 -run '^$' -bench . -benchtime 1x ./... >"$out/bench.log" 2>&1 || { cat "$out/bench.log"; failed=1; }
fi

if [ "$vm" = 1 ]; then
	say "waiting for the guests"
	wait
	for k in "${kernels[@]}"; do
		if [ ! -s "$out/vm-$k/tests.log" ]; then
			say "kernel $k gave no log"
			tail -n 30 "$out/vm-$k/run.log" || true
			: >"$out/vm-$k/tests.log"
		fi
		go run ./hack/testcount console "vm-$k" "$out/vm-$k/tests.log" "$out/vm-$k.tally" || failed=1
		if [ "$(cat "$out/vm-$k/rc")" != 0 ]; then
			say "hack/vm/run.sh $k ended with $(cat "$out/vm-$k/rc")"
			tail -n 30 "$out/vm-$k/run.log" || true
			failed=1
		fi
		tallies+=("$out/vm-$k.tally")
	done
fi

counts=(-counts hack/testcount/counts.txt)
[ "$host" = 1 ] || counts=()
if [ "$failed" != 0 ]; then say "something above failed"; fi
go run ./hack/testcount sum "${counts[@]}" "${update[@]}" "${tallies[@]}" || failed=1
exit "$failed"
