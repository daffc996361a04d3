package egress

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupID is the inode number of the directory, which is what bpf_get_current_cgroup_id returns on 64-bit kernels.
func cgroupID(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("statfs %q: %w", dir, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return 0, fmt.Errorf("%q is not a cgroup version 2 directory", dir)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, fmt.Errorf("stat %q: %w", dir, err)
	}
	return st.Ino, nil
}

// children lists the ids of the cgroups right below dir.
func children(dir string) (map[uint64]bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	ids := map[uint64]bool{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		id, err := cgroupID(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ids[id] = true
	}
	return ids, nil
}

// populated: a process lives in dir or below.
func populated(dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return false, err
	}
	return strings.Contains(string(text), "populated 1"), nil
}

// removeCgroup waits a little for the last process to be gone.
func removeCgroup(dir string) error {
	for range 100 {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove cgroup %q: %w", dir, unix.EBUSY)
}
