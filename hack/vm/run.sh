#!/bin/bash
# run.sh [OPTION…] KERNEL TEST…   runs tests as root in a VM with one of the kernels listed in the file "kernels" (K-014)
#
# TEST is a package of this module (./runner/slot: built here, runs in its own folder, with its testdata) or a static test binary.
# The names of the tests that passed must be those in expect-KERNEL.txt, or a guest that lacks something would pass by
# running nothing.
#
#   --file SRC:DEST   puts a file or folder into the guest (again and again)
#   --run REGEXP      runs only these tests, and does not compare names
#   --update          writes the names of the tests that passed to expect-KERNEL.txt
#   --out FOLDER      keeps console.log and tests.log there
#   --per SECONDS     for one test binary, then SIGQUIT (240)
#
# exit: 0 all passed, 1 a test failed, was skipped or did not run, 2 the guest gave no verdict, 3 no kernel or no tool
# In the guest: pure cgroup v2, LOCKBOX_VM=1, LOCKBOX_ABI the kernel's Landlock ABI, busybox in /usr/bin, user 1000, no network but lo.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
die() { echo "run.sh: $2" >&2; exit "$1"; }

files=() run='' update='' out='' per=240
while :; do
	case ${1:-} in
	--file) files+=("${2:?}"); shift 2 ;;
	--run) run=${2:?}; shift 2 ;;
	--update) update=1; shift ;;
	--out) out=${2:?}; shift 2 ;;
	--per) per=${2:?}; shift 2 ;;
	-*) die 3 "unknown option $1; see the top of $0" ;;
	*) break ;;
	esac
done
[ $# -ge 2 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 3; }
kernel=$1
shift
read -r package abi < <(awk -v k="$kernel" '$1 == k {sub("abi=", "", $3); print $2, $3}' "$here/kernels") ||
	die 3 "no kernel $kernel; known: $(awk '!/^#/ {printf "%s ", $1}' "$here/kernels")"
command -v busybox >/dev/null || die 3 "no busybox; hint: apt-get install --no-install-recommends busybox-static"
command -v file >/dev/null || die 3 "no file; hint: apt-get install --no-install-recommends file"
static() { file -L "$1" | grep -q 'statically linked\|static-pie linked' || die 3 "$1 is not static; hint: build it with CGO_ENABLED=0"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
image=$("$here/vm.sh" fetch "$package")
root=$work/root
mkdir -p "$root"/{etc,proc,sys,dev,tmp,run,tests,root,home/user,var/tmp,var/lib,usr/bin,usr/sbin,usr/lib,usr/lib64,usr/share}
ln -s usr/bin "$root/bin"
ln -s usr/sbin "$root/sbin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
cp -L "$(command -v busybox)" "$root/usr/bin/busybox"
static "$root/usr/bin/busybox"
cp "$here/init.sh" "$root/init"
chmod 755 "$root/init"
printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'user:x:1000:1000:user:/home/user:/bin/sh' 'nobody:x:65534:65534:nobody:/:/bin/false' >"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'tty:x:5:' 'user:x:1000:' 'nogroup:x:65534:' >"$root/etc/group"
printf '%s\n' 'root:*:19000:0:99999:7:::' 'user:*:19000:0:99999:7:::' >"$root/etc/shadow"
printf '%s\n' '127.0.0.1 localhost vm' '::1 localhost' >"$root/etc/hosts"
printf '%s\n' 'ID=lockbox-vm' >"$root/etc/os-release"
: >"$root/etc/resolv.conf"
printf 'PER=%q\nRUN=%q\nLOCKBOX_ABI=%q\n' "$per" "$run" "$abi" >"$root/vm.env"

names=()
for t; do
	if [ -d "$t" ]; then
		pkg=$(cd "$t" && pwd)
		rel=${pkg#"$repo"/}
		[ "$rel" != "$pkg" ] || die 3 "$t is no package of this module"
		name=${rel//\//-}.test
		(cd "$pkg" && CGO_ENABLED=0 go test -c -trimpath -ldflags='-s -w' -o "$root/tests/$name" .) || die 3 "building $t failed"
		[ -f "$root/tests/$name" ] || die 3 "$t has no tests"
		mkdir -p "$root/src/$rel"
		[ ! -d "$pkg/testdata" ] || cp -a "$pkg/testdata" "$root/src/$rel/"
		echo "/src/$rel" >"$root/tests/$name.dir"
	elif [ -f "$t" ]; then
		name=$(basename "$t" .test).test
		cp -L "$t" "$root/tests/$name"
	else
		die 3 "$t is neither a package folder nor a test binary"
	fi
	static "$root/tests/$name"
	names+=("$name")
done
for f in ${files[@]+"${files[@]}"}; do
	mkdir -p "$(dirname "$root/${f#*:}")"
	cp -aL "${f%%:*}" "$root/${f#*:}"
done

keep=${out:+1}
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/lockbox-vm-$kernel-XXXXXX")}
begin=$SECONDS rc=0
"$here/vm.sh" boot "$image" "$root" "$out" "${#names[@]}" || rc=$?
[ $rc -le 1 ] || exit $rc

# BINARY NAME of each test of one verdict, outermost tests only: the names of inner ones may be random.
verdict() { awk -v want="$1:" '$1 == "VMBEGIN" {b = $2} $1 == "---" && $2 == want && /^---/ {print b, $3}' "$out/tests.log" | LC_ALL=C sort; }
passed=$(verdict PASS) skipped=$(verdict SKIP) failed=$(verdict FAIL)
count() { printf '%s' "${1:+$1
}" | wc -l; }
echo "$kernel: $(count "$passed") passed, $(count "$failed") failed, $(count "$skipped") skipped in $((SECONDS - begin)) s ($(awk '/^VMBOOT/ {print $3; exit}' "$out/tests.log"))"
if [ $rc = 1 ]; then
	grep -vE '^(=== |--- PASS|    --- PASS)' "$out/tests.log" | tail -n 100 >&2
	echo "run.sh: tests failed on $kernel; see $out" >&2
	exit 1
fi
if [ -n "$skipped" ]; then
	echo "run.sh: skipped on $kernel, and a skipped test is not a pass:" $skipped >&2
	exit 1
fi
if [ -z "$run" ]; then
	expect=$here/expect-$kernel.txt
	mine=$(printf '%s\n' "${names[@]}")
	if [ -n "$update" ]; then
		touch "$expect"
		{ awk 'NR == FNR {mine[$1]; next} NF && !($1 in mine)' <(echo "$mine") "$expect"; echo "$passed"; } | LC_ALL=C sort >"$expect.new"
		mv "$expect.new" "$expect"
	fi
	want=$(awk 'NR == FNR {mine[$1]; next} $1 in mine' <(echo "$mine") "$expect" 2>/dev/null | LC_ALL=C sort) || true
	if ! diff <(echo "$want") <(echo "$passed") >"$work/diff"; then
		sed -n '/^[<>] $/d; s/^< /did not run: /p; s/^> /not listed: /p' "$work/diff" >&2
		echo "run.sh: the tests that passed on $kernel are not those of $expect; hint: if that is right, add --update" >&2
		exit 1
	fi
fi
[ -n "$keep" ] || rm -rf "$out"
