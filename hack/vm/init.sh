#!/bin/busybox sh
# The guest's first process. It moves off the initramfs (pivot_root and bind mounts do not work on it), mounts what a host has,
# runs each test binary and reports on the second serial port.
if [ ! -e /moved ]; then
	/bin/busybox mkdir /new
	/bin/busybox mount -t tmpfs -o mode=755,size=75% root /new
	for f in /* /.[!.]*; do
		case $f in /new | /dev | /proc | /sys | '/.[!.]*') ;; *) /bin/busybox cp -a "$f" /new/ ;; esac
	done
	/bin/busybox mkdir /new/dev /new/proc /new/sys
	: >/new/moved
	exec /bin/busybox switch_root /new /init
fi
/bin/busybox --install /usr/bin
export PATH=/usr/bin HOME=/root TMPDIR=/tmp
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
for d in /dev/shm /tmp /var/tmp; do mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs $d; done
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /run
mount -t securityfs securityfs /sys/kernel/security
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf -o mode=700 bpf /sys/fs/bpf
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
mkdir -p /run/user/1000
chown 1000:1000 /run/user/1000 /home/user
chmod 700 /run/user/1000 /root
chmod 600 /etc/shadow
hostname vm
ip link set lo up
exec </dev/null >/dev/ttyS1 2>&1
. /vm.env
export LOCKBOX_VM=1 LOCKBOX_ABI
read -r up _ </proc/uptime
echo "VMBOOT $up $(uname -r) lsm=$(cat /sys/kernel/security/lsm) cgroup=$(cat /sys/fs/cgroup/cgroup.controllers)"
ran=0 failed=0
for t in /tests/*.test; do
	name=${t##*/}
	dir=/tests
	[ -f "$t.dir" ] && dir=$(cat "$t.dir")
	cd "$dir"
	echo "VMBEGIN $name"
	timeout -s QUIT -k 5 "$PER" "$t" -test.v -test.skip="^Test(Host|Pure)" ${RUN:+-test.run="$RUN"}
	rc=$?
	read -r up _ </proc/uptime
	echo
	echo "VMTEST $name rc=$rc at $up"
	ran=$((ran + 1))
	[ $rc = 0 ] || failed=$((failed + 1))
done
echo "VMRESULT $NONCE ran=$ran failed=$failed"
poweroff -f
