package apart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroup is the tests' own cgroup in one hierarchy.
type cgroup struct {
	fstype, options, mount string
	home, dir              string // where we come from, and the tests' own
}

func (c cgroup) String() string { return c.fstype + ":" + c.options + ":" + c.mount }

func parse(s string) (cgroup, bool) {
	f := strings.SplitN(s, ":", 3)
	if len(f) != 3 {
		return cgroup{}, false
	}
	return cgroup{fstype: f[0], options: f[1], mount: f[2]}, true
}

// used are the v1 controllers that runs join.
var used = []string{"memory", "pids", "cpu", "cpuacct"}

// cgroups lists the hierarchies that runs use, or none where memory is not in v1.
func cgroups() ([]cgroup, error) {
	mi, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	path := map[string]string{} // by controllers; "" is v2
	for _, line := range strings.Split(strings.TrimSpace(string(self)), "\n") {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 {
			path[f[1]] = f[2]
		}
	}
	var out []cgroup
	v1memory := false
	for _, line := range strings.Split(string(mi), "\n") {
		head, tail, _ := strings.Cut(line, " - ")
		f, t := strings.Fields(head), strings.Fields(tail)
		if len(f) < 5 || len(t) < 3 || f[3] != "/" {
			continue
		}
		c := cgroup{fstype: t[0], mount: f[4]}
		switch t[0] {
		case "cgroup2":
			c.home = filepath.Join(c.mount, path[""])
		case "cgroup":
			var names []string
			for _, o := range strings.Split(t[2], ",") {
				if slices.Contains(used, o) {
					names = append(names, o)
				}
			}
			c.options = strings.Join(names, ",")
			own, ok := path[c.options]
			if len(names) == 0 || !ok {
				continue
			}
			v1memory = v1memory || slices.Contains(names, "memory")
			c.home = filepath.Join(c.mount, own)
		default:
			continue
		}
		c.dir = filepath.Join(c.home, "lockbox-test-"+strconv.Itoa(os.Getpid()))
		out = append(out, c)
	}
	if !v1memory {
		return nil, nil
	}
	return out, nil
}

func join(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// empty is an error if a process or a cgroup of a run is left. The parents of all
// runs may stay.
func (c cgroup) empty() error {
	if err := join(c.home); err != nil {
		return err
	}
	var errs []error
	dirs, _ := filepath.Glob(filepath.Join(c.dir, "*", "*", "cgroup.procs"))
	top, _ := filepath.Glob(filepath.Join(c.dir, "*", "cgroup.procs"))
	for _, p := range append(append(dirs, top...), filepath.Join(c.dir, "cgroup.procs")) {
		if b, _ := os.ReadFile(p); len(b) > 0 {
			errs = append(errs, fmt.Errorf("processes left in %q: %s", filepath.Dir(p), strings.Fields(string(b))))
		}
		if slices.Contains(dirs, p) {
			errs = append(errs, fmt.Errorf("cgroup left: %q", filepath.Dir(p)))
		}
		unix.Rmdir(filepath.Dir(p))
	}
	return errors.Join(errs...)
}
