package sandbox

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// K-028, L-042: what Landlock does not see: mode, owner, times, attributes. The
// read-only mounts answer; what is not granted is not there.
func TestMetadata(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "granted/file", "outside/file", "w/file")
		ops := []string{"chmod", "chown", "utime"}
		if a := unconfined(t, do("setxattr", d+"/w/file"))[0]; a.Errno != unix.EOPNOTSUPP { // tmpfs has user.* since 6.6
			ops = append(ops, "setxattr")
		}
		var rows []row
		for _, op := range ops {
			rows = append(rows,
				no(errs(unix.EROFS), op, d+"/granted/file"),
				no(errs(unix.EROFS), op, d+"/granted"),
				no(errs(unix.ENOENT), op, d+"/outside/file"),
				yes(op, d+"/w/file"),
				yes(op, d+"/w"),
			)
		}
		rows = append(rows,
			no(errs(unix.EROFS, unix.EACCES), "truncate", d+"/granted/file"),
			no(errs(unix.ENOENT, unix.EACCES), "truncate", d+"/outside/file"),
			no(errs(unix.ENOENT), "stat", d+"/outside/file"),
			no(errs(unix.ENOENT), "inotify", d+"/outside"),
			no(errs(unix.ENOENT), "chdir", d+"/outside"),
			no(errs(unix.EROFS, unix.EACCES), "mkdir", d+"/granted/dir"),
			no(errs(unix.EROFS, unix.EACCES), "symlink", "x", d+"/granted/link"),
			no(errs(unix.EROFS, unix.EACCES), "mkfifo", d+"/granted/fifo"),
		)
		check(t, &setup{profile: grants("r "+d+"/granted", "rw "+d+"/w")}, rows)
	})
}

// Devices can be written, not changed; none can be made.
func TestDevices(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "w/")
		rows := []row{yes("write", "/dev/null"), yes("read", "/dev/zero"), yes("read", "/dev/urandom"), yes("stat", "/dev/full")}
		fixed := []string{"chmod", "chown", "utime", "remove"}
		for _, op := range fixed {
			want := errs(unix.EROFS, unix.EPERM, unix.EBUSY, unix.EACCES)
			a := confine(t, &setup{profile: grants()}, do(op, "/dev/null")).answers[0]
			judge(t, "inside", no(want, op, "/dev/null"), a) // no control: it would change the host's
		}
		rows = append(rows, no(errs(unix.EACCES, unix.EPERM), "mknod", d+"/w/null"))
		for _, dev := range []string{"/dev/mem", "/dev/kmsg", "/dev/tty", "/dev/ptmx", "/dev/fuse", "/dev/loop0", "/dev/vsock"} {
			if _, err := os.Lstat(dev); err == nil {
				rows = append(rows, no(errs(unix.ENOENT), "stat", dev))
			}
		}
		check(t, &setup{profile: grants("rw " + d + "/w")}, rows)
	})
}
