package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func (t *target) file(name string) string { return filepath.Join(t.Dir, name) }
func (t *target) mine(name string) string { return filepath.Join(t.Work, name) }

// K-002, K-019, K-028, L-041, L-042: files outside the granted roots.
var fileProbes = []probe{
	{"file-read", func(t *target) error { return readSecret(t.file("secret")) }},
	{"file-write", func(t *target) error { return openClose(t.file("secret"), unix.O_WRONLY) }},
	{"file-truncate", func(t *target) error { return unix.Truncate(t.file("scratch"), 1) }},
	{"file-open-truncate", func(t *target) error { return openClose(t.file("scratch"), unix.O_RDONLY|unix.O_TRUNC) }},
	{"file-create", func(t *target) error { return openClose(t.file("new"), unix.O_WRONLY|unix.O_CREAT) }},
	{"file-tmpfile", func(t *target) error { return openClose(t.Dir, unix.O_WRONLY|unix.O_TMPFILE) }},
	{"file-remove", func(t *target) error { return recreate(t.file("removable"), unix.Unlink(t.file("removable"))) }},
	{"dir-list", func(t *target) error { return list(t.Dir, "secret") }},
	{"dir-make", func(t *target) error { return unix.Mkdir(t.file(unique("d")), 0o700) }},
	{"fifo-make", func(t *target) error { return unix.Mknod(t.file(unique("p")), unix.S_IFIFO|0o600, 0) }},
	{"symlink-make", func(t *target) error { return unix.Symlink("x", t.file(unique("s"))) }},
	{"symlink-read", func(t *target) error {
		link := t.mine(unique("link"))
		if err := unix.Symlink(t.file("secret"), link); err != nil {
			return err
		}
		return readSecret(link)
	}},
	{"symlink-write", func(t *target) error {
		link := t.mine(unique("link"))
		if err := unix.Symlink(t.file("scratch"), link); err != nil {
			return err
		}
		return openClose(link, unix.O_WRONLY)
	}},
	{"dotdot-read", func(t *target) error {
		return readSecret(t.Work + "/../" + filepath.Base(t.Dir) + "/secret")
	}},
	{"hardlink-in", func(t *target) error { return unix.Link(t.file("secret"), t.mine(unique("l"))) }},
	{"hardlink-out", func(t *target) error {
		f := t.mine(unique("f"))
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			return err
		}
		return unix.Link(f, t.file(unique("l")))
	}},
	{"rename-out", func(t *target) error {
		f := t.mine(unique("f"))
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			return err
		}
		return unix.Rename(f, t.file(unique("r")))
	}},
	{"rename-in", func(t *target) error {
		return recreate(t.file("removable"), unix.Rename(t.file("removable"), t.mine(unique("r"))))
	}},
	{"rename-outside", func(t *target) error { return unix.Rename(t.file("scratch"), t.file("scratch")) }},
	{"proc-root-read", func(t *target) error { return readSecret("/proc/self/root" + t.file("secret")) }},
	{"proc-cwd-read", func(t *target) error {
		if err := unix.Chdir(t.Work); err != nil {
			return err
		}
		return readSecret("/proc/self/cwd/../" + filepath.Base(t.Dir) + "/secret")
	}},
	{"daemonised-read", daemonisedRead},

	// Landlock up to ABI 8 leaves these open (K-028).
	{"stat", func(t *target) error { var st unix.Stat_t; return unix.Lstat(t.file("secret"), &st) }},
	{"access", func(t *target) error { return unix.Access(t.file("secret"), unix.R_OK) }},
	{"readlink", func(t *target) error { _, err := unix.Readlink(t.file("alias"), make([]byte, 99)); return err }},
	{"statfs", func(t *target) error { var st unix.Statfs_t; return unix.Statfs(t.file("secret"), &st) }},
	{"open-path", func(t *target) error { return openClose(t.file("secret"), unix.O_PATH) }},
	{"chdir", func(t *target) error { return unix.Chdir(t.Dir) }},
	{"listxattr", func(t *target) error { _, err := unix.Listxattr(t.file("secret"), nil); return err }},
	{"inotify", func(t *target) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		_, err = unix.InotifyAddWatch(fd, t.Dir, unix.IN_CREATE)
		return err
	}},
	{"fanotify", func(t *target) error {
		fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID, 0)
		if err != nil {
			return err
		}
		return unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_CREATE|unix.FAN_ONDIR, unix.AT_FDCWD, t.Dir)
	}},
	{"chmod", func(t *target) error { return unix.Chmod(t.file("scratch"), 0o600) }},
	{"fchmodat2", func(t *target) error { return fchmodat2(t.file("scratch"), 0o600) }},
	{"chown", func(t *target) error { return unix.Lchown(t.file("scratch"), os.Getuid(), os.Getgid()) }},
	{"setxattr", func(t *target) error { return unix.Setxattr(t.file("scratch"), "user.probe", []byte("x"), 0) }},
	{"utimensat", func(t *target) error {
		now := unix.NsecToTimespec(time.Now().UnixNano())
		return unix.UtimesNanoAt(unix.AT_FDCWD, t.file("scratch"), []unix.Timespec{now, now}, 0)
	}},
	{"metadata-procfd", func(t *target) error { // chmod through an O_PATH descriptor and its magic link
		fd, err := unix.Open(t.file("scratch"), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o600)
	}},
	{"metadata-usr", func(*target) error { // a granted, read-only tree
		var st unix.Stat_t
		if err := unix.Stat("/usr", &st); err != nil {
			return err
		}
		return unix.Chmod("/usr", st.Mode&0o7777)
	}},
	{"handle-name", func(t *target) error {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, t.file("secret"), 0)
		return err
	}},
	{"handle-open", func(t *target) error {
		if len(t.Handle) == 0 {
			return unix.EOPNOTSUPP
		}
		dir, err := unix.Open(t.Work, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		fd, err := unix.OpenByHandleAt(dir, unix.NewFileHandle(t.HandleType, t.Handle), unix.O_RDONLY)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
	{"memfd-exec", func(t *target) error {
		b, err := os.ReadFile(self())
		if err != nil {
			return err
		}
		fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		if _, err := unix.Write(fd, b); err != nil {
			return err
		}
		return start(fmt.Sprintf("/proc/self/fd/%d", fd))
	}},
	{"exec-outside", func(t *target) error { return start(t.file("program")) }},
	{"inherited-fd", func(*target) error { _, err := unix.Pread(9, make([]byte, 1), 0); return err }},
	{"inherited-dirfd", func(*target) error {
		fd, err := unix.Openat(8, "secret", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
}

func openClose(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// readSecret succeeds only if the file is the victim's: another file of the same name is not a way out.
func readSecret(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), secret) {
		return errText("other-content")
	}
	return nil
}

func list(dir, want string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Name() == want {
			return nil
		}
	}
	return errText("not-listed")
}

// recreate puts the file back, so that the next probe and the next run find it.
func recreate(path string, err error) error {
	if err == nil {
		os.WriteFile(path, nil, 0o600)
	}
	return err
}

func unique(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), time.Now().UnixNano())
}
