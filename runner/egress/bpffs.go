package egress

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountBPFFS mounts a bpffs at dir, for root alone, unless there is one. The caller holds the lock.
func mountBPFFS(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	mounted, err := isBPFFS(dir)
	if err != nil || mounted {
		return err
	}
	if err := unix.Mount("bpf", dir, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount a bpffs at %q: %w", dir, err)
	}
	return nil
}

// isBPFFS is an error for a bpffs that others may enter.
func isBPFFS(dir string) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return false, fmt.Errorf("statfs %q: %w", dir, err)
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		return false, nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return false, fmt.Errorf("stat %q: %w", dir, err)
	}
	if st.Mode&0o777 != 0o700 || st.Uid != 0 {
		return false, fmt.Errorf("the bpffs at %q has mode %o and uid %d: want 700 and 0", dir, st.Mode&0o777, st.Uid)
	}
	return true, nil
}

// lock serialises those who change what is pinned in dir.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("flock %q: %w", f.Name(), err), f.Close())
		}
	}
}

// removePinned ends every pin in dir, the mount and the directory. The lock file stays: who waits for it must not hold another one.
func removePinned(dir string) error {
	mounted, err := isBPFFS(dir)
	if err != nil {
		return err
	}
	if mounted {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue // the kernel's own
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("umount %q: %w", dir, err)
		}
	}
	return os.Remove(dir)
}
