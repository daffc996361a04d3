//go:build linux

package slot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Sweep ends the slots whose owner is gone: it kills their processes and removes their directories and lock files. It returns
// the ids of the runs. A slot whose lock is held is left alone, and so is every cgroup that no lock file of this runDir names.
func (t *Tree) Sweep() ([]string, error) {
	dir, err := lockDir(t.runDir)
	if err != nil {
		return nil, fmt.Errorf("sweeping slots: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("sweeping slots: %w", err)
	}
	var swept []string
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), lockSuffix)
		if !ok || !validID(id) {
			continue
		}
		done, err := t.sweep(filepath.Join(dir, e.Name()), id)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweeping slot %q: %w", id, err))
		}
		if done {
			swept = append(swept, id)
		}
	}
	return swept, errors.Join(errs...)
}

// sweep tells whether it removed the slot of a run.
func (t *Tree) sweep(name, id string) (bool, error) {
	l, text, err := seize(name)
	if l == nil {
		return false, err
	}
	v2, v1 := split(id, lines(text))
	had := slices.ContainsFunc(append(v1, v2...), func(d string) bool { return exists(d, ".") })
	var errs []error
	for _, d := range v2 {
		errs = append(errs, end(d, v1, endTime, nil))
	}
	if len(v2) == 0 {
		errs = append(errs, end("", v1, endTime, nil))
	}
	err = errors.Join(errs...)
	return had && err == nil, errors.Join(err, l.release(err == nil))
}

// split sorts the directories of a lock file by hierarchy. Lines that cannot be a slot of id are dropped, so that a damaged file
// never makes us remove anything else.
func split(id string, dirs []string) (v2, v1 []string) {
	for _, d := range dirs {
		if !filepath.IsAbs(d) || filepath.Clean(d) != d || filepath.Base(d) != id || filepath.Base(filepath.Dir(d)) != parentName {
			continue
		}
		switch {
		case isFS(d, unix.CGROUP2_SUPER_MAGIC):
			v2 = append(v2, d)
		case isFS(d, unix.CGROUP_SUPER_MAGIC):
			v1 = append(v1, d)
		}
	}
	return v2, v1
}
