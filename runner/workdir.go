package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	lock, err := acquire(filepath.Join(base, id+".lock"))
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	w := &workdir{dir: filepath.Join(base, id), lock: lock}
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

// acquire makes a lock file and takes it. A sweeper may take the new file before
// its maker does: it then removes it, and the maker makes another.
func acquire(name string) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && linked(f) {
			return f, nil
		}
		f.Close()
		if err != nil && err != unix.EWOULDBLOCK {
			return nil, fmt.Errorf("flock %q: %w", name, err)
		}
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("flock %q: %w", name, unix.EWOULDBLOCK)
}

// linked reports whether the file is still under its name.
func linked(f *os.File) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(have, named)
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
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && linked(f) {
			w := &workdir{dir: filepath.Join(base, id), lock: f}
			w.remove()
			swept = append(swept, id)
			continue
		}
		f.Close()
	}
	return swept
}
