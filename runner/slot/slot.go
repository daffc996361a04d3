//go:build linux

package slot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"
)

// endTime bounds how long Close and Sweep wait for killed processes to go.
const endTime = 10 * time.Second

// A Slot is the cgroup of one run. It is safe for concurrent use.
type Slot struct {
	id     string
	limits Limits
	dir    string            // v2
	v1     map[string]string // v1 directory by controller
	m2     *cgroup2.Manager
	m1     cgroup1.Cgroup // nil if no controller comes from v1
	cgid   uint64
	lock   *lock

	mu       sync.Mutex // guards all below
	fd       int        // v2 directory, owned; -1 once closed
	tasks    []int      // v1 tasks files, owned
	closed   bool
	closeErr error
	final    *record // set by Close: what the counters said at the end
}

// validID reports whether id is 1 to 64 of A-Z a-z 0-9 _ . - and starts with a
// letter or digit, so that it is one file name and nothing else.
func validID(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '.' && c != '-') {
			return false
		}
	}
	return true
}

// New makes the slot of run id, with its limits in force, and locks it for the life of this process. A limit that the host cannot
// hold is an *UnsupportedError, and nothing is left.
func (t *Tree) New(id string, l Limits) (*Slot, error) {
	if !validID(id) {
		return nil, fmt.Errorf("slot id %q: want letters, digits, '.', '_', '-', at most 64", id)
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	for _, c := range l.asked() {
		if _, err := t.Supports(c); err != nil {
			return nil, err
		}
	}
	s, err := t.try(id, l)
	if errors.Is(err, fs.ErrNotExist) { // somebody took the parent away: make it again
		t.forget()
		s, err = t.try(id, l)
	}
	return s, err
}

func (t *Tree) try(id string, l Limits) (*Slot, error) {
	if _, err := t.Parent(); err != nil {
		return nil, err
	}
	s := &Slot{id: id, limits: l, fd: -1, dir: filepath.Join(t.v2.parent(), id), v1: map[string]string{}}
	for c, p := range t.v1 {
		// Membership in the cpu hierarchy is only worth its price for a quota; the other two also count.
		if c != "cpu" || l.CPU > 0 {
			s.v1[c] = filepath.Join(p.parent(), id)
		}
	}
	var err error
	// The lock comes first and names the directories: from here on a killed owner leaves nothing that Sweep does not find.
	if s.lock, err = acquire(t.runDir, id, s.dirs()); err != nil {
		return nil, fmt.Errorf("locking slot %q: %w", id, err)
	}
	if err := s.create(t); err != nil {
		s.mu.Lock()
		s.closed = true
		err = errors.Join(fmt.Errorf("making slot %q: %w", id, err), s.releaseLocked(!errors.Is(err, fs.ErrExist)))
		s.mu.Unlock()
		return nil, err
	}
	return s, nil
}

func (s *Slot) create(t *Tree) (err error) {
	for i, d := range s.dirs() {
		// Mkdir, not MkdirAll: an existing directory is somebody else's.
		if err := os.Mkdir(d, 0o755); err != nil {
			for _, made := range s.dirs()[:i] {
				unix.Rmdir(made)
			}
			return err
		}
	}
	has := func(c string) bool { return slices.Contains(t.v2.Controllers, c) && t.no[c] == nil }
	// Given the parent as its mount point, the library touches no subtree_control but the parent's.
	if s.m2, err = cgroup2.NewManager(t.v2.parent(), "/"+s.id, s.limits.v2(has, exists(s.dir, "memory.swap.max"))); err != nil {
		return err
	}
	if s.m1, err = newV1(s.v1, s.limits); err != nil {
		return err
	}
	if s.fd, err = unix.Open(s.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return &fs.PathError{Op: "open", Path: s.dir, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return &fs.PathError{Op: "fstat", Path: s.dir, Err: err}
	}
	s.cgid = st.Ino // the inode of a cgroup directory is its id on 64-bit kernels (kernfs)
	for _, d := range s.v1Dirs() {
		file := filepath.Join(d, "tasks")
		fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: file, Err: err}
		}
		s.tasks = append(s.tasks, fd)
	}
	return nil
}

// dirs lists every directory of the slot, v1 before v2. Controllers mounted together share one.
func (s *Slot) dirs() []string { return append(s.v1Dirs(), s.dir) }

func (s *Slot) v1Dirs() []string {
	var out []string
	for _, d := range s.v1 {
		out = append(out, d)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Dir returns the v2 directory.
func (s *Slot) Dir() string { return s.dir }

// ID returns the cgroup id of the v2 directory, as bpf_get_current_ancestor_cgroup_id sees it.
func (s *Slot) ID() uint64 { return s.cgid }

// FD returns the v2 directory's descriptor for CLONE_INTO_CGROUP. The slot keeps it; it is −1 once the slot is closed.
func (s *Slot) FD() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fd
}

// TaskFDs returns the v1 tasks files. A child joins by writing "0" to each, as a process with one thread. The slot keeps them.
func (s *Slot) TaskFDs() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tasks)
}

// Add moves a running process, with all its threads, into the slot. Starting it there by FD and TaskFDs leaves no window; Add does.
func (s *Slot) Add(pid int) error {
	if s.m1 != nil {
		if err := s.m1.AddProc(uint64(pid)); err != nil {
			return fmt.Errorf("moving process %d into slot %q: %w", pid, s.id, err)
		}
	}
	if err := s.m2.AddProc(uint64(pid)); err != nil {
		return fmt.Errorf("moving process %d into slot %q: %w", pid, s.id, err)
	}
	return nil
}

// Close kills what is left in the slot, waits for it, removes its directories and lets the lock go. Usage and Cause answer from
// their last state afterwards. If something cannot be killed in time the lock file stays, for the next Sweep. Closing twice is
// fine and returns the same error.
func (s *Slot) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.closeErr
	}
	s.closed = true
	err := end(s.dir, s.v1Dirs(), endTime, func() {
		r := s.record()
		s.final = &r
	})
	if err != nil {
		s.closeErr = fmt.Errorf("closing slot %q: %w", s.id, err)
	}
	s.closeErr = errors.Join(s.closeErr, s.releaseLocked(false))
	return s.closeErr
}

// releaseLocked closes the descriptors and the lock. The lock file goes if the slot's directories are gone, or can be removed.
func (s *Slot) releaseLocked(remove bool) error {
	for _, fd := range append(s.tasks, s.fd) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	s.tasks, s.fd = nil, -1
	var err error
	if remove {
		err = end(s.dir, s.v1Dirs(), endTime, nil)
	}
	return errors.Join(err, s.lock.release(err == nil && s.closeErr == nil))
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}
