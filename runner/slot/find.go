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
	"sync"

	"golang.org/x/sys/unix"
)

// parentName is the one cgroup below which all runs live.
const parentName = "lockbox-runs"

// limited are the controllers that a Limits value can ask for.
var limited = []string{"memory", "pids", "cpu"}

// A Tree is the part of the host's cgroup hierarchies in which runs get their slots. It is safe for concurrent use.
type Tree struct {
	runDir string
	v2     place            // carries every run
	v1     map[string]place // controllers that v2 does not have, by name
	no     map[string]error // controllers that are not to be had, with the reason

	mu    sync.Mutex // guards ready
	ready bool       // the parents exist and their controllers are enabled
}

// A place is a directory in which we may make cgroups and into which we may move processes.
type place struct {
	Dir string
	// On v2 only:
	Root        bool     // the hierarchy's real root, which may have processes and children with controllers
	Controllers []string // available to children
	Enabled     []string // already enabled for children
	Others      int      // processes in it that are not this one
	Mine        bool     // this process is in it
}

func (p place) parent() string { return filepath.Join(p.Dir, parentName) }

// Find looks at the host's cgroup mounts and changes nothing. Lock files of the slots go to runDir/slots. A host without a
// usable cgroup v2 hierarchy gives an *UnsupportedError with a hint.
func Find(runDir string) (*Tree, error) {
	mi, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	cg, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	mounts, err := parseMountinfo(string(mi))
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	own, err := parseSelfCgroup(string(cg))
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	return find(runDir, mounts, own, live{})
}

// facts are the questions that find asks about a directory; the tests answer them from a table.
type facts interface {
	// v2 reports on a v2 directory; false if it is no cgroup2 directory that we may use.
	v2(dir string) (place, bool)
	// v1 reports whether dir is a v1 cgroup directory that we may use.
	v1(dir string) bool
	// uid is our effective user id, for the hints.
	uid() int
}

func find(runDir string, mounts []mount, o own, host facts) (*Tree, error) {
	t := &Tree{runDir: runDir, v1: map[string]place{}, no: map[string]error{}}
	var ok bool
	if t.v2, ok = findV2(mounts, o, host); !ok {
		return nil, noV2(mounts, o, host.uid())
	}
	for _, c := range limited {
		if slices.Contains(t.v2.Controllers, c) {
			if err := t.v2.canEnable(c); err != nil {
				t.no[c] = err
			}
			continue
		}
		if p, ok := findV1(mounts, o, host, c); ok {
			t.v1[c] = p
			continue
		}
		t.no[c] = noController(mounts, t.v2, c, host.uid())
	}
	return t, nil
}

// findV2 takes the top-most usable ancestor that gives the most controllers.
func findV2(mounts []mount, o own, host facts) (best place, found bool) {
	most := -1
	for _, m := range mounts {
		if !m.V2 || o.V2 == "" {
			continue
		}
		for _, dir := range m.candidates(o.V2) {
			p, ok := host.v2(dir)
			if !ok {
				continue
			}
			n := 0
			for _, c := range limited {
				if slices.Contains(p.Controllers, c) && p.canEnable(c) == nil {
					n++
				}
			}
			if n > most {
				best, most, found = p, n, true
			}
		}
	}
	return best, found
}

func findV1(mounts []mount, o own, host facts, controller string) (place, bool) {
	for _, m := range mounts {
		if !m.has(controller) {
			continue
		}
		for _, dir := range m.candidates(o.V1[controller]) {
			if host.v1(dir) {
				return place{Dir: dir}, true
			}
		}
	}
	return place{}, false
}

// canEnable tells whether controller c can be had in children of p: v2 forbids processes in a cgroup whose children have
// controllers, except in the real root. Our own process can be moved out of the way; those of others are left alone.
func (p place) canEnable(c string) error {
	if slices.Contains(p.Enabled, c) || p.Root || p.Others == 0 {
		return nil
	}
	return &UnsupportedError{
		Feature: "limiting " + c,
		Need:    fmt.Sprintf("no processes directly in cgroup %q (cgroup v2 allows either processes or children with controllers)", p.Dir),
		Have:    fmt.Sprintf("%d other processes in it", p.Others),
		Hint: fmt.Sprintf("move them into a child once: mkdir %[1]s/init && for p in $(cat %[1]s/cgroup.procs); do echo $p > %[1]s/init/cgroup.procs; done; "+
			"or start lockbox in a cgroup of its own: systemd-run --user --scope -p Delegate=yes lockbox run …", p.Dir),
	}
}

// Supports says how the limit of a controller ("memory", "pids", "cpu") would be set, or why it cannot be.
func (t *Tree) Supports(controller string) (by string, err error) {
	if !slices.Contains(limited, controller) {
		return "", fmt.Errorf("BUG: no limit uses the controller %q", controller)
	}
	if err := t.no[controller]; err != nil {
		return "", err
	}
	file := map[string][2]string{
		"memory": {"memory.max", "memory.limit_in_bytes"},
		"pids":   {"pids.max", "pids.max"},
		"cpu":    {"cpu.max", "cpu.cfs_quota_us"},
	}[controller]
	if p, ok := t.v1[controller]; ok {
		return fmt.Sprintf("cgroup v1 %s below %s", file[1], p.parent()), nil
	}
	return fmt.Sprintf("cgroup v2 %s below %s", file[0], t.v2.parent()), nil
}

const systemdHint = "start it in a delegated scope: systemd-run --user --scope -p Delegate=yes lockbox run …"

func noV2(mounts []mount, o own, uid int) error {
	e := &UnsupportedError{Feature: "a cgroup for the run", Need: "a writable cgroup v2 directory", Have: "none"}
	has := func(v2 bool) bool { return slices.ContainsFunc(mounts, func(m mount) bool { return m.V2 == v2 }) }
	switch {
	case !has(true) && has(false):
		e.Have = "cgroup v1 only"
		e.Hint = "boot with systemd.unified_cgroup_hierarchy=1, or mount v2 beside v1: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"
	case !has(true):
		e.Have = "no cgroup mount"
		e.Hint = "mount -t cgroup2 cgroup2 /sys/fs/cgroup"
	case uid == 0:
		e.Have = fmt.Sprintf("cgroup2 mounted, but read-only or without our own cgroup %q in sight", o.V2)
		e.Hint = "in a container: give it a writable cgroup2 mount of its own cgroup namespace (docker run --cgroupns=private with a writable /sys/fs/cgroup)"
	default:
		e.Have = fmt.Sprintf("our cgroup %q and its ancestors, none of them delegated to uid %d", o.V2, uid)
		e.Hint = systemdHint
	}
	return e
}

func noController(mounts []mount, v2 place, c string, uid int) error {
	e := &UnsupportedError{
		Feature: "limiting " + c,
		Need:    fmt.Sprintf("the controller %q in cgroup v2 at %q, or in a writable v1 hierarchy", c, v2.Dir),
		Have:    "v2 controllers [" + strings.Join(v2.Controllers, " ") + "]",
	}
	if slices.ContainsFunc(mounts, func(m mount) bool { return m.has(c) }) {
		e.Have += fmt.Sprintf(", and a v1 hierarchy in which uid %d may make no cgroup", uid)
		e.Hint = "run as root, or boot with systemd.unified_cgroup_hierarchy=1"
	} else if uid != 0 {
		e.Hint = systemdHint + "; and let systemd delegate the controller: Delegate=cpu memory pids in user@.service"
	} else {
		e.Hint = fmt.Sprintf("the kernel has no %s controller, or it is disabled on its command line (cgroup_disable=%s)", c, c)
	}
	return e
}

// live answers from the running kernel.
type live struct{}

func (live) v2(dir string) (place, bool) {
	if !isFS(dir, unix.CGROUP2_SUPER_MAGIC) || !writable(dir) || !writable(filepath.Join(dir, "cgroup.procs")) {
		return place{}, false
	}
	p := place{Dir: dir}
	// cgroup.type exists in every cgroup but the real root (cgroup-v2.rst).
	_, err := os.Lstat(filepath.Join(dir, "cgroup.type"))
	p.Root = errors.Is(err, fs.ErrNotExist)
	p.Enabled = fields(filepath.Join(dir, "cgroup.subtree_control"))
	p.Controllers = p.Enabled
	if writable(filepath.Join(dir, "cgroup.subtree_control")) {
		p.Controllers = fields(filepath.Join(dir, "cgroup.controllers"))
	}
	self := strconv.Itoa(os.Getpid())
	for _, pid := range fields(filepath.Join(dir, "cgroup.procs")) {
		if pid == self {
			p.Mine = true
		} else {
			p.Others++
		}
	}
	return p, true
}

func (live) uid() int { return os.Geteuid() }

func (live) v1(dir string) bool {
	return isFS(dir, unix.CGROUP_SUPER_MAGIC) && writable(dir) && writable(filepath.Join(dir, "tasks"))
}

// isFS guards against mounts that another mount hides.
func isFS(dir string, magic int64) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && int64(st.Type) == magic
}

func writable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

func fields(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}
