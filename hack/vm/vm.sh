#!/bin/bash
# vm.sh fetch PACKAGE             puts the image of a Debian kernel into the cache and prints its path
# vm.sh boot IMAGE ROOT OUT N     boots it on the folder ROOT; leaves console.log and tests.log in OUT; N test binaries must report
# exit: 0 all passed, 1 a test failed, 2 the guest gave no verdict, 3 no kernel or no tool
#
# Environment: VM_MEM (MiB, 1536), VM_CPUS (1), VM_LIMIT (seconds for the whole boot, 600), VM_LSM (the kernel's lsm= list),
# VM_APPEND (more for the kernel's command line), VM_ACCEL (as for qemu -accel).
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockbox/vm-kernels

die() { echo "vm.sh: $2" >&2; exit "$1"; }

# need COMMAND=PACKAGE… says which packages are missing, all at once.
need() {
	local x missing=()
	for x; do command -v "${x%=*}" >/dev/null || missing+=("${x#*=}"); done
	[ ${#missing[@]} = 0 ] || die 3 "missing commands; hint: apt-get install --no-install-recommends ${missing[*]}"
}

fetch() { # PACKAGE
	local dep dir tmp img
	need apt-cache=apt apt-get=apt dpkg=dpkg flock=util-linux
	dep=$(apt-cache depends "$1" 2>/dev/null | awk '/Depends: linux-image-/ {print $2; exit}') || true
	[ -n "$dep" ] || die 3 "no package $1; hint: apt-get update"
	dir=$cache/$dep
	mkdir -p "$cache"
	exec 9>"$cache/.lock"
	flock 9 # two boots may fetch at the same time
	if [ ! -f "$dir/vmlinuz" ]; then
		echo "vm.sh: fetching $dep" >&2
		tmp=$(mktemp -d)
		# From 7.x on Debian keeps the image in linux-binary-VERSION.
		(cd "$tmp" && for p in "$dep" "${dep/linux-image-/linux-binary-}"; do
			apt-get download "$p" >/dev/null 2>&1 || continue
			dpkg -x ./*.deb x && rm -f ./*.deb
		done)
		img=$(find "$tmp" -name 'vmlinuz*' -type f 2>/dev/null | head -n 1)
		[ -n "$img" ] || { rm -rf "$tmp"; die 3 "no kernel image in $dep; hint: apt-get update"; }
		rm -rf "$dir.new"
		mkdir "$dir.new"
		cp "$img" "$dir.new/vmlinuz"
		find "$tmp" -name 'config*' -type f -exec cp {} "$dir.new/config" \; -quit
		rm -rf "$tmp" "$dir"
		mv "$dir.new" "$dir"
	fi
	exec 9>&-
	echo "$dir/vmlinuz"
}

boot() { # IMAGE ROOT OUT N
	local img=$1 root=$2 out=$3 n=$4 nonce accel cpu
	need qemu-system-x86_64=qemu-system-x86 cpio=cpio gzip=gzip timeout=coreutils
	[ -f "$img" ] || die 3 "no kernel image $img"
	mkdir -p "$out"
	rm -f "$out"/console.log "$out"/tests.log "$out"/tests.raw
	# A test that prints a verdict of its own does not know this.
	nonce=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
	echo "NONCE=$nonce" >>"$root/vm.env"
	(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0 | gzip -1n) >"$out/initrd.gz"
	# TCG with more than one thread breaks the kernel's patching of its own code (Oops: int3), so it gets one thread.
	accel=tcg,thread=single cpu=max
	# Some hosts open /dev/kvm without VMX or SVM and cannot boot a stock kernel with it: they hang.
	if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accel=kvm cpu=host; fi
	# no_timer_check: under load a guest now and then panics with "IO-APIC + timer doesn't work".
	timeout -k 5 "${VM_LIMIT:-600}" qemu-system-x86_64 -accel "${VM_ACCEL:-$accel}" -M q35 -cpu "$cpu" \
		-m "${VM_MEM:-1536}" -smp "${VM_CPUS:-1}" -nodefaults -no-user-config -no-reboot -display none -nic none \
		-serial "file:$out/console.log" -serial "file:$out/tests.raw" -kernel "$img" -initrd "$out/initrd.gz" \
		-append "console=ttyS0 loglevel=5 panic=-1 oops=panic no_timer_check lsm=${VM_LSM-landlock,lockdown,yama,bpf} ${VM_APPEND:-}" \
		</dev/null || echo "vm.sh: qemu ended with $?" >&2
	[ -f "$out/tests.raw" ] || die 3 "qemu did not start"
	tr -d '\r' <"$out/tests.raw" >"$out/tests.log"
	rm -f "$out/tests.raw" "$out/initrd.gz"
	if ! grep -q "^VMRESULT $nonce " "$out/tests.log"; then
		tail -n 30 "$out/console.log" >&2
		die 2 "no verdict from the guest; see $out"
	fi
	grep -q "^VMRESULT $nonce ran=$n failed=0\$" "$out/tests.log" || return 1
}

case ${1:-} in
fetch) [ $# = 2 ] || die 3 "usage: vm.sh fetch PACKAGE"; fetch "$2" ;;
boot) [ $# = 5 ] || die 3 "usage: vm.sh boot IMAGE ROOT OUT N"; shift; boot "$@" ;;
*) sed -n '2,4s/^# //p' "$0" >&2; exit 3 ;;
esac
