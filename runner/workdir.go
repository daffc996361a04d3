package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lockbox/sandbox"
)

// workdir is what a supervised run has on disk:
//
//	HOME/runner/tmp/ID.lock   flock held by the supervisor as long as it lives
//	HOME/runner/tmp/ID/       tmp and vartmp of the run, removed at its end
type workdir struct {
	dir  string
	lock *os.File
}

func newWorkdir(id string) (*workdir, error) {
	home := Home()
	if home == "" {
		return nil, errors.New("no state folder: set HOME, XDG_STATE_HOME or LOCKBOX_HOME to an absolute path")
	}
	base := filepath.Join(home, "runner", "tmp")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(base, id+".lock"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	w := &workdir{dir: filepath.Join(base, id), lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("flock %q: %w", lock.Name(), err)
	}
	for _, n := range sandbox.TmpNames() {
		d := filepath.Join(w.dir, n)
		if err := os.MkdirAll(d, 0o700); err != nil {
			w.remove()
			return nil, fmt.Errorf("state folder: %w", err)
		}
		if err := os.Chmod(d, 0o1777|fs.ModeSticky); err != nil {
			w.remove()
			return nil, fmt.Errorf("state folder: %w", err)
		}
	}
	return w, nil
}

// remove takes the directory away, then the lock.
func (w *workdir) remove() error {
	err := removeAll(w.dir)
	os.Remove(w.lock.Name())
	w.lock.Close()
	return err
}

// removeAll removes a tree whose directories may have been made unreadable.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// sweepWorkdirs removes the directories of supervisors that are gone.
func sweepWorkdirs() []string {
	base := filepath.Join(Home(), "runner", "tmp")
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	var swept []string
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".lock")
		if !ok {
			continue
		}
		f, err := os.OpenFile(filepath.Join(base, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			w := &workdir{dir: filepath.Join(base, id), lock: f}
			w.remove()
			swept = append(swept, id)
			continue
		}
		f.Close()
	}
	return swept
}
