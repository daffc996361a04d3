//go:build linux

package slot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends every process of the slot and of the cgroups made below it, daemons included. It does not wait: WaitEmpty does.
func (s *Slot) Kill() error { return kill(s.dir, endTime) }

// Populated tells whether a process, not counting zombies, lives in the slot or below it.
func (s *Slot) Populated() (bool, error) { return populated(s.dir) }

// WaitEmpty waits until no process lives in the slot. After d it gives up with os.ErrDeadlineExceeded.
func (s *Slot) WaitEmpty(d time.Duration) error { return waitEmpty(s.dir, time.Now().Add(d)) }

// end kills everything in the v2 directory and in the v1 directories of one slot, calls last (if not nil) while the counters
// can still be read, and removes the directories. Those that do not exist are fine.
func end(v2 string, v1 []string, d time.Duration, last func()) error {
	deadline := time.Now().Add(d)
	if v2 != "" {
		err := kill(v2, d)
		if err == nil {
			err = waitEmpty(v2, deadline)
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	for _, dir := range v1 {
		if err := killV1(dir, deadline); err != nil && !gone(err) {
			return err
		}
	}
	if last != nil {
		last()
	}
	for _, dir := range append(slices.Clone(v1), v2) {
		if dir == "" {
			continue
		}
		if err := remove(dir, deadline); err != nil {
			return err
		}
	}
	return nil
}

// kill writes cgroup.kill (since 5.14), which also catches what is being forked.
func kill(dir string, d time.Duration) error {
	err := write(filepath.Join(dir, "cgroup.kill"), "1")
	if errors.Is(err, fs.ErrNotExist) && exists(dir, "cgroup.procs") {
		return killFrozen(dir, time.Now().Add(d))
	}
	return err
}

// killFrozen is kill for older kernels: freeze, so that nothing forks, signal each process, thaw, and again until none is left.
func killFrozen(dir string, deadline time.Time) error {
	for {
		if err := write(filepath.Join(dir, "cgroup.freeze"), "1"); err != nil {
			return err
		}
		err := signalAll(dir)
		// Killed processes of a frozen cgroup die at once; thawing lets through what the freezer did not reach.
		if err := errors.Join(err, write(filepath.Join(dir, "cgroup.freeze"), "0")); err != nil {
			return err
		}
		err = waitEmpty(dir, time.Now().Add(20*time.Millisecond))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("killing processes in %q: %w", dir, os.ErrDeadlineExceeded)
		}
	}
}

// killV1 ends processes that are in a v1 directory only, which cgroup.kill does not reach. Normally there are none.
func killV1(dir string, deadline time.Time) error {
	for {
		pids, err := procs(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := signalAll(dir); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("killing processes in %q: %w", dir, os.ErrDeadlineExceeded)
		}
		time.Sleep(time.Millisecond)
	}
}

// signalAll sends SIGKILL to each process below dir. A pidfd is opened first and membership read after it, so that a process id
// that was given to somebody else in between is never hit.
func signalAll(dir string) error {
	pids, err := procs(dir)
	if err != nil {
		return err
	}
	fds := map[int]int{}
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		} else if err != unix.ESRCH && err != unix.EINVAL {
			return fmt.Errorf("pidfd_open %d: %w", pid, err)
		}
	}
	still, err := procs(dir)
	if err != nil {
		return err
	}
	for _, pid := range still {
		if fd, ok := fds[pid]; ok && pid != os.Getpid() {
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
				return fmt.Errorf("pidfd_send_signal %d: %w", pid, err)
			}
		}
	}
	return nil
}

// procs lists the process ids in dir and below.
func procs(dir string) ([]int, error) {
	var out []int
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			if p != dir && gone(err) {
				return nil
			}
			return err
		}
		if e.Name() != "cgroup.procs" {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil && !gone(err) && !errors.Is(err, unix.EOPNOTSUPP) { // a threaded cgroup's processes are its domain's
			return err
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 { // 0: outside our pid namespace
				out = append(out, pid)
			}
		}
		return nil
	})
	return out, err
}

func populated(dir string) (bool, error) {
	text, err := read(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return false, err
	}
	return isPopulated(text)
}

func isPopulated(text string) (bool, error) {
	n, ok := parseFlat(text)["populated"]
	if !ok {
		return false, fmt.Errorf("cgroup.events has no \"populated\": %q", text)
	}
	return n != 0, nil
}

// waitEmpty polls cgroup.events, which signals POLLPRI at each change.
func waitEmpty(dir string, deadline time.Time) error {
	name := filepath.Join(dir, "cgroup.events")
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if live, err := isPopulated(string(buf[:n])); err != nil || !live {
			return err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("waiting for processes in %q to end: %w", dir, os.ErrDeadlineExceeded)
		}
		// Woken now and then in any case, so that a lost event costs little.
		ms := min(int(left/time.Millisecond)+1, 100)
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, ms); err != nil && err != unix.EINTR {
			return fmt.Errorf("poll %q: %w", name, err)
		}
	}
}

// remove removes a cgroup directory and those that the run made in it, and tries again while the kernel says EBUSY.
func remove(dir string, deadline time.Time) error {
	for {
		err := removeTree(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func removeTree(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	entries, lerr := os.ReadDir(dir)
	if lerr != nil && !gone(lerr) {
		return lerr
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err = unix.Rmdir(dir); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// gone tells whether err only says that a cgroup is no more: ENOENT on opening, ENODEV on reading.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
