//go:build linux

package slot

import (
	"path/filepath"

	"github.com/containerd/cgroups/v3/cgroup1"
)

// hierarchy gives the containerd library our v1 directories (by controller), wherever they are mounted.
//
// The library takes a root and appends the controller's name, then the path: ROOT/memory/PATH. Hosts mount cpu as "cpu,cpuacct"
// and not always below one root. With "/" as root and "/.." + directory as path, its lexical join yields the directory itself.
func hierarchy(dirs map[string]string) (cgroup1.Path, cgroup1.Hierarchy) {
	path := func(name cgroup1.Name) (string, error) {
		d, ok := dirs[string(name)]
		if !ok {
			return "", cgroup1.ErrControllerNotActive
		}
		return "/.." + d, nil
	}
	return path, func() ([]cgroup1.Subsystem, error) {
		var out []cgroup1.Subsystem
		if d, ok := dirs["memory"]; ok {
			// kmem was taken out of the kernel bit by bit, and we read none of it.
			ignore := []string{"kmem", "kmem.tcp"}
			if !exists(filepath.Dir(d), "memory.memsw.limit_in_bytes") {
				ignore = append(ignore, "memsw")
			}
			out = append(out, cgroup1.NewMemory("/", cgroup1.IgnoreModules(ignore...)))
		}
		if _, ok := dirs["pids"]; ok {
			out = append(out, cgroup1.NewPids("/"))
		}
		if _, ok := dirs["cpu"]; ok {
			out = append(out, cgroup1.NewCpu("/"))
		}
		return out, nil
	}
}

// newV1 writes the limits into the (existing) v1 directories. It returns nil if there are none.
func newV1(dirs map[string]string, l Limits) (cgroup1.Cgroup, error) {
	if len(dirs) == 0 {
		return nil, nil
	}
	path, h := hierarchy(dirs)
	swap := exists(dirs["memory"], "memory.memsw.limit_in_bytes")
	return cgroup1.New(path, l.v1(swap), cgroup1.WithHierarchy(h))
}
