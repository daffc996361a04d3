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

	"golang.org/x/sys/unix"
)

// selfName is the leaf into which lockbox moves itself when it is alone in a delegated cgroup and in its own way.
const selfName = "lockbox-self"

// maxDepth bounds how deep cgroups may nest below the parent, so that removing what a run made stays cheap.
const maxDepth = "32"

// Parent returns the v2 directory below which all runs live, and makes it and enables its controllers if need be.
func (t *Tree) Parent() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ready {
		return t.v2.parent(), nil
	}
	for c, p := range t.v1 {
		if err := mkdir(p.parent()); err != nil {
			return "", fmt.Errorf("making the %s parent of all runs: %w", c, err)
		}
	}
	if err := mkdir(t.v2.parent()); err != nil {
		return "", fmt.Errorf("making the parent of all runs: %w", err)
	}
	for _, c := range limited {
		if !slices.Contains(t.v2.Controllers, c) || t.no[c] != nil {
			continue
		}
		if err := t.v2.enable(c); err != nil {
			return "", err
		}
		if err := enable(t.v2.parent(), c); err != nil {
			return "", err
		}
	}
	if err := write(filepath.Join(t.v2.parent(), "cgroup.max.depth"), maxDepth); err != nil {
		return "", fmt.Errorf("bounding the depth of cgroups: %w", err)
	}
	t.ready = true
	return t.v2.parent(), nil
}

// forget makes the next Parent look again.
func (t *Tree) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready = false
}

// RemoveParent removes the empty parents again. It fails with EBUSY while any run lives below one.
func (t *Tree) RemoveParent() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready = false
	var errs []error
	dirs := []string{t.v2.parent()}
	for _, p := range t.v1 {
		dirs = append(dirs, p.parent())
	}
	slices.Sort(dirs)
	for _, d := range slices.Compact(dirs) {
		if err := unix.Rmdir(d); err != nil && err != unix.ENOENT {
			errs = append(errs, &fs.PathError{Op: "rmdir", Path: d, Err: err})
		}
	}
	return errors.Join(errs...)
}

// enable enables c for the children of p. If only our own process stands in the way it moves into a leaf first.
func (p place) enable(c string) error {
	err := enable(p.Dir, c)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	procs := fields(filepath.Join(p.Dir, "cgroup.procs"))
	self := strconv.Itoa(os.Getpid())
	if others := slices.DeleteFunc(slices.Clone(procs), func(s string) bool { return s == self }); len(others) > 0 {
		p.Others = len(others)
		if err := p.canEnable(c); err != nil {
			return err
		}
	}
	leaf := filepath.Join(p.Dir, selfName)
	if err := mkdir(leaf); err != nil {
		return fmt.Errorf("making a cgroup for lockbox itself: %w", err)
	}
	if err := write(filepath.Join(leaf, "cgroup.procs"), self); err != nil {
		return fmt.Errorf("moving lockbox itself into a leaf cgroup: %w", err)
	}
	return enable(p.Dir, c)
}

// enable writes one controller at a time: one that is unknown fails the whole write.
func enable(dir, c string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	if slices.Contains(fields(file), c) {
		return nil
	}
	if err := write(file, "+"+c); err != nil {
		return fmt.Errorf("enabling the %s controller: %w", c, err)
	}
	return nil
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// write writes a control file that must exist: os.WriteFile would try to create a missing one and answer EACCES.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func read(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimSuffix(string(b), "\n"), err
}
