package main

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// K-019, K-022, K-024: kernel interfaces that reach around files and sockets, or give more rights.
var kernelProbes = []probe{
	{"userns-unshare", func(*target) error { return startWith(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER}, "ids") }},
	{"userns-clone", func(*target) error { return startWith(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}, "ids") }},
	{"userns-clone3", func(*target) error { return clone3(unix.CLONE_NEWUSER, -1) }},
	{"netns-unshare", func(*target) error { return locked(func() error { return unix.Unshare(unix.CLONE_NEWNET) }) }},
	{"mntns-unshare", func(*target) error { return startWith(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "ids") }},
	{"clone3-cgroup", func(t *target) error {
		dir, err := unix.Open(t.Cgroup, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			if dir, err = unix.Open(t.Work, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
		}
		return clone3(cloneIntoCgroup, dir)
	}},
	{"mount-tmpfs", func(t *target) error { return undo(unix.Mount("x", t.Work, "tmpfs", 0, ""), t.Work) }},
	{"mount-bind", func(t *target) error { return undo(unix.Mount("/", t.Work, "", unix.MS_BIND, ""), t.Work) }},
	{"mount-remount", func(*target) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
	{"mount-propagation", func(*target) error { return unix.Mount("", "/", "", unix.MS_PRIVATE, "") }},
	{"umount", func(t *target) error { // a file that is no mount point: EINVAL would say that it was looked at
		if err := unix.Unmount(t.Work, unix.MNT_DETACH); err != unix.EINVAL {
			return err
		}
		return nil
	}},
	{"umount-proc", func(*target) error {
		// In a mount namespace of its own where it can have one, so that the positive control harms nobody; in a run, which
		// cannot, the call itself.
		if err := startWith(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "umount"); err == nil || os.Getpid() == 1 {
			return err
		}
		return unix.Unmount("/proc", unix.MNT_DETACH)
	}},
	{"mount-setattr", func(*target) error {
		return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	}},
	{"open-tree", func(*target) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
	{"fsopen", func(*target) error {
		fd, err := unix.Fsopen("tmpfs", 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
	{"chroot", func(t *target) error { return startWith(nil, "chroot", t.Work) }},
	{"pivot-root", func(t *target) error { // EINVAL: looked at, and only the arguments were wrong
		if err := unix.PivotRoot(t.Work, t.Work); err != unix.EINVAL && err != unix.EBUSY {
			return err
		}
		return nil
	}},
	{"mknod-device", func(t *target) error { return unix.Mknod(t.mine(unique("dev")), unix.S_IFCHR|0o600, 1<<8|1) }},
	{"io-uring", func(*target) error { return ioUringSetup() }},
	{"keyctl-search", func(t *target) error {
		_, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", t.Key, 0)
		return err
	}},
	{"add-key", func(*target) error {
		_, err := unix.AddKey("user", "lockbox-escape-added", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}},
	{"request-key", func(t *target) error {
		_, err := unix.RequestKey("user", t.Key, "", unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}},
	{"perf", func(*target) error {
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Size: unix.PERF_ATTR_SIZE_VER0,
			Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		}, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
	{"userfaultfd", func(*target) error { return userfaultfd() }},
	{"bpf-map", func(*target) error { return bpfMap() }},
	{"bpf-prog", func(*target) error { return bpfProg() }},
	{"syslog", func(*target) error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 64)); return err }},
	{"sethostname", func(*target) error {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return err
		}
		return unix.Sethostname([]byte(unix.ByteSliceToString(u.Nodename[:])))
	}},
	{"quotactl", func(*target) error { return quotactl() }},
	{"init-module", func(*target) error { // an empty image: ENOEXEC says that it was looked at
		if err := unix.InitModule(nil, ""); err != unix.ENOEXEC {
			return err
		}
		return nil
	}},
	{"kexec", func(*target) error { return kexecUnload() }},
	{"tiocsti", func(*target) error { return tiocsti(0) }},
	{"tioclinux", func(*target) error { return tioclinux(0) }},
	{"dev-tty", func(*target) error { return openClose("/dev/tty", unix.O_RDWR) }},
	{"dev-ptmx", func(*target) error { return openClose("/dev/ptmx", unix.O_RDWR) }},
	{"dev-mem", func(*target) error { return openClose("/dev/mem", unix.O_RDONLY) }},
	{"dev-kmsg", func(*target) error { return openClose("/dev/kmsg", unix.O_WRONLY) }},
	{"dev-disk", func(t *target) error {
		if t.Disk == "" {
			return errText("no-victim")
		}
		return openClose(t.Disk, unix.O_RDONLY)
	}},
	{"core-limit", func(*target) error {
		return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 4096, Max: 4096})
	}},
}

// locked runs f on a thread that ends with it.
func locked(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is changed
		done <- f()
	}()
	return <-done
}

func undo(err error, mounted string) error {
	if err == nil {
		unix.Unmount(mounted, unix.MNT_DETACH)
	}
	return err
}

// K-023, K-024: objects of System V and POSIX IPC that belong to the host.
var ipcProbes = []probe{
	{"sysv-shm", func(t *target) error {
		b, err := unix.SysvShmAttach(t.Shm, 0, unix.SHM_RDONLY)
		if err != nil {
			return err
		}
		return unix.SysvShmDetach(b)
	}},
	{"sysv-msg", func(t *target) error { return msgSend(t.Msg) }},
	{"sysv-sem", func(t *target) error { return semValue(t.Sem) }},
	{"posix-mq", func(t *target) error { return mqOpen(t.MQ, unix.O_RDONLY) }},
	{"posix-shm", func(t *target) error { return readSecret(t.ShmFile) }},
}

// K-004 to K-006, K-021: control files of the kernel and of lockbox.
var stateProbes = []probe{
	{"cgroup-read", func(t *target) error { return openClose(t.Cgroup+"/cgroup.procs", unix.O_RDONLY) }},
	{"cgroup-write", func(t *target) error { return openClose(t.Cgroup+"/cgroup.procs", unix.O_WRONLY) }},
	{"cgroup-mkdir", func(t *target) error {
		dir := t.Cgroup + "/" + unique("probe")
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return unix.Rmdir(dir)
	}},
	{"bpffs-list", func(t *target) error { return openClose(t.Bpffs, unix.O_RDONLY|unix.O_DIRECTORY) }},
	{"bpffs-mkdir", func(t *target) error {
		dir := t.Bpffs + "/" + unique("probe")
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return unix.Rmdir(dir)
	}},
	{"state-read", func(t *target) error { return readSecret(t.State) }},
	{"state-write", func(t *target) error { return openClose(t.State, unix.O_WRONLY) }},
	{"state-stat", func(t *target) error { var st unix.Stat_t; return unix.Stat(t.State, &st) }},
	{"config-write", func(t *target) error {
		return openClose(t.Config+"/"+unique("p")+".toml", unix.O_WRONLY|unix.O_CREAT)
	}},
	{"sysctl-write", func(*target) error { return openClose("/proc/sys/kernel/core_pattern", unix.O_WRONLY) }},
	{"sysrq-write", func(*target) error { return openClose("/proc/sysrq-trigger", unix.O_WRONLY) }},
	{"proc-kcore", func(*target) error { return openClose("/proc/kcore", unix.O_RDONLY) }},
	{"sys-write", func(*target) error { return openClose("/sys/kernel/uevent_helper", unix.O_WRONLY) }},
	{"securityfs", func(*target) error { return openClose("/sys/kernel/security", unix.O_RDONLY|unix.O_DIRECTORY) }},
	{"shadow-read", func(*target) error { return openClose("/etc/shadow", unix.O_RDONLY) }},
	{"passwd-write", func(*target) error { return openClose("/etc/passwd", unix.O_WRONLY) }},
	{"env-secret", func(*target) error {
		if os.Getenv("LOCKBOX_ESCAPE_SECRET") == "" {
			return errText("absent")
		}
		return nil
	}},
}
