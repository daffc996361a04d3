//go:build linux

package slot

import (
	"errors"
	"strings"
	"testing"
)

// table answers find's questions.
type table struct {
	two map[string]place
	one map[string]bool
	id  int
}

func (t table) v2(dir string) (place, bool) { p, ok := t.two[dir]; p.Dir = dir; return p, ok }
func (t table) v1(dir string) bool          { return t.one[dir] }
func (t table) uid() int                    { return t.id }

var all = []string{"cpuset", "cpu", "io", "memory", "pids"}

// Where the slots go, and which limits can be had, on the usual hosts (K-007, K-018).
func TestFindPlace(t *testing.T) {
	const user = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"
	for _, c := range []struct {
		name, mounts, cgroup string
		host                 table
		want                 string   // v2 place
		by                   []string // memory, pids, cpu: a part of by, or of the error and its hint after "!"
		err                  string   // a part of Find's error and hint
	}{
		{
			name: "root with systemd: the real root", mounts: pureMounts, cgroup: "0::/user.slice/user-0.slice/session-1.scope",
			host: table{two: map[string]place{
				"/sys/fs/cgroup": {Root: true, Controllers: all, Others: 90},
				"/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope": {Controllers: all, Others: 3},
			}},
			want: "/sys/fs/cgroup", by: []string{"v2 memory.max below /sys/fs/cgroup/lockbox-runs", "v2 pids.max", "v2 cpu.max"},
		}, {
			name: "user in a delegated session: the user manager's cgroup", mounts: pureMounts,
			cgroup: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope",
			host: table{id: 1000, two: map[string]place{
				user:                          {Controllers: []string{"memory", "pids"}, Enabled: []string{"memory", "pids"}},
				user + "/app.slice":           {Controllers: []string{"memory", "pids"}},
				user + "/app.slice/x.scope":   {Controllers: []string{"memory", "pids"}, Mine: true, Others: 1},
				"/sys/fs/cgroup/system.slice": {Controllers: all},
			}},
			want: user, by: []string{"v2 memory.max", "v2 pids.max", "!Delegate="},
		}, {
			name: "unit with Delegate=yes, lockbox alone in it", mounts: pureMounts, cgroup: "0::/system.slice/l.service",
			host: table{two: map[string]place{"/sys/fs/cgroup/system.slice/l.service": {Controllers: all, Mine: true}}},
			want: "/sys/fs/cgroup/system.slice/l.service", by: []string{"v2 memory.max", "v2 pids.max", "v2 cpu.max"},
		}, {
			name: "the same with a shell beside it", mounts: pureMounts, cgroup: "0::/system.slice/l.service",
			host: table{two: map[string]place{"/sys/fs/cgroup/system.slice/l.service": {Controllers: all, Mine: true, Others: 1}}},
			want: "/sys/fs/cgroup/system.slice/l.service", by: []string{"!1 other process", "!Delegate=yes", "!init/cgroup.procs"},
		}, {
			name: "container with its own namespace, others in its root", mounts: pureMounts, cgroup: "0::/",
			host: table{two: map[string]place{"/sys/fs/cgroup": {Controllers: all, Others: 2, Mine: true}}},
			want: "/sys/fs/cgroup", by: []string{"!cgroup v2 allows either processes or children with controllers", "!mkdir", "!init"},
		}, {
			name: "a lower place that has the controllers wins", mounts: pureMounts, cgroup: "0::/a/b",
			host: table{two: map[string]place{
				"/sys/fs/cgroup/a":   {Controllers: all, Others: 2},
				"/sys/fs/cgroup/a/b": {Controllers: all, Mine: true},
			}},
			want: "/sys/fs/cgroup/a/b", by: []string{"below /sys/fs/cgroup/a/b/", "v2", "v2"},
		}, {
			name: "hybrid as root", mounts: hybridMounts, cgroup: "4:memory:/job/4ceb\n8:pids:/\n1:cpu,cpuacct:/\n0::/",
			host: table{
				two: map[string]place{"/sys/fs/cgroup/unified": {Root: true, Controllers: []string{"hugetlb"}, Others: 50}},
				one: map[string]bool{"/sys/fs/cgroup/memory": true, "/sys/fs/cgroup/memory/job/4ceb": true, "/sys/fs/cgroup/pids": true, "/sys/fs/cgroup/cpu,cpuacct": true},
			},
			want: "/sys/fs/cgroup/unified",
			by:   []string{"v1 memory.limit_in_bytes below /sys/fs/cgroup/memory/lockbox-runs", "v1 pids.max", "v1 cpu.cfs_quota_us below /sys/fs/cgroup/cpu,cpuacct/"},
		}, {
			name: "hybrid with a read-only v1 memory hierarchy", mounts: hybridMounts, cgroup: "4:memory:/\n8:pids:/\n1:cpu,cpuacct:/\n0::/",
			host: table{
				two: map[string]place{"/sys/fs/cgroup/unified": {Root: true}},
				one: map[string]bool{"/sys/fs/cgroup/pids": true},
			},
			want: "/sys/fs/cgroup/unified", by: []string{"!may make no cgroup", "v1 pids.max", "!may make no cgroup"},
		}, {
			name: "memory disabled on the kernel's command line", mounts: pureMounts, cgroup: "0::/",
			host: table{two: map[string]place{"/sys/fs/cgroup": {Root: true, Controllers: []string{"pids", "cpu"}}}},
			want: "/sys/fs/cgroup", by: []string{"!memory", "v2 pids.max", "v2 cpu.max"},
		},
		{name: "v1 only", mounts: "34 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", cgroup: "4:memory:/",
			host: table{one: map[string]bool{"/sys/fs/cgroup/memory": true}}, err: "cgroup v1 only|mount -t cgroup2"},
		{name: "none", cgroup: "", err: "no cgroup mount|mount -t cgroup2"},
		{name: "read-only container", mounts: dockerMounts, cgroup: "0::/docker/4ceb", err: "need a writable cgroup v2 directory|"},
		{name: "session scope, nothing delegated", mounts: pureMounts, cgroup: "0::/user.slice/user-1000.slice/session-3.scope", host: table{id: 1000}, err: "session-3.scope|systemd-run --user --scope"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mounts, err := parseMountinfo(c.mounts)
			if err != nil {
				t.Fatal(err)
			}
			o, err := parseSelfCgroup(c.cgroup)
			if err != nil {
				t.Fatal(err)
			}
			tree, err := find("/run/x", mounts, o, c.host)
			if c.err != "" {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Fatalf("error %v, want unsupported", err)
				}
				what, hint, _ := strings.Cut(c.err, "|")
				if !strings.Contains(err.Error(), what) || !strings.Contains(hintOf(err), hint) || hintOf(err) == "" {
					t.Fatalf("error %q, hint %q", err, hintOf(err))
				}
				return
			}
			if err != nil || tree.v2.Dir != c.want {
				t.Fatalf("place %+v, %v; want %q", tree, err, c.want)
			}
			for i, want := range c.by {
				by, err := tree.Supports(limited[i])
				if no, ok := strings.CutPrefix(want, "!"); ok {
					if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error()+" "+hintOf(err), no) {
						t.Errorf("%s: by %q, error %v, hint %q; want an error with %q", limited[i], by, err, hintOf(err), no)
					}
				} else if err != nil || !strings.Contains(by, want) {
					t.Errorf("%s: by %q, %v; want %q", limited[i], by, err, want)
				}
			}
		})
	}
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*UnsupportedError](err); ok {
		return e.Hint
	}
	return ""
}

// A limit that cannot be held refuses the run before anything is made (K-018).
func TestUnsupportedLimitRefused(t *testing.T) {
	tree := &Tree{runDir: t.TempDir(), v2: place{Dir: "/nonexistent"}, no: map[string]error{"memory": &UnsupportedError{Feature: "limiting memory"}}}
	if s, err := tree.New("x", Limits{MemoryBytes: 1 << 20}); s != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("slot %v, error %v", s, err)
	}
	if _, err := tree.Supports("io"); err == nil || !strings.Contains(err.Error(), "BUG") {
		t.Errorf("unknown controller: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	tree := &Tree{}
	nan := 0.0
	nan /= nan
	for _, c := range []struct {
		id   string
		l    Limits
		want string
	}{
		{"", Limits{}, "slot id"},
		{"..", Limits{}, "slot id"},
		{"a/b", Limits{}, "slot id"},
		{"a\nb", Limits{}, "slot id"},
		{strings.Repeat("a", 65), Limits{}, "slot id"},
		{"a", Limits{MemoryBytes: -1}, "memory limit"},
		{"a", Limits{Pids: -1}, "pids limit"},
		{"a", Limits{CPU: -0.5}, "cpu limit"},
		{"a", Limits{CPU: 0.001}, "cpu limit"},
		{"a", Limits{CPU: nan}, "cpu limit"},
		{"a", Limits{CPU: 1e300}, "cpu limit"},
	} {
		if s, err := tree.New(c.id, c.l); s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %+v: %v", c.id, c.l, err)
		}
	}
}
