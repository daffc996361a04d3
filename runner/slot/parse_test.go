package slot

import (
	"path"
	"reflect"
	"strings"
	"testing"
)

const (
	pureMounts = `24 1 0:22 / / rw,relatime - ext4 /dev/vda1 rw
35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
`
	hybridMounts = `30 22 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 master:1 - cgroup cgroup rw,cpu,cpuacct
34 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
38 30 0:35 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
39 30 0:36 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	// Docker without a cgroup namespace binds the container's own cgroup.
	dockerMounts = `801 790 0:29 /docker/4ceb /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate
`
)

func TestParseMountinfo(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []mount
		bad      string
	}{
		{"pure v2, with optional fields", pureMounts, []mount{{"/", "/sys/fs/cgroup", true, []string{"rw", "nsdelegate", "memory_recursiveprot"}}}, ""},
		{"hybrid", hybridMounts, []mount{
			{"/", "/sys/fs/cgroup/cpu,cpuacct", false, []string{"rw", "cpu", "cpuacct"}},
			{"/", "/sys/fs/cgroup/memory", false, []string{"rw", "memory"}},
			{"/", "/sys/fs/cgroup/pids", false, []string{"rw", "pids"}},
			{"/", "/sys/fs/cgroup/systemd", false, []string{"rw", "xattr", "name=systemd"}},
			{"/", "/sys/fs/cgroup/unified", true, []string{"rw"}},
		}, ""},
		{"docker", dockerMounts, []mount{{"/docker/4ceb", "/sys/fs/cgroup", true, []string{"rw", "nsdelegate"}}}, ""},
		{"odd place, escaped", `5 1 0:9 / /mnt/a\040b\134c rw - cgroup2 none rw`, []mount{{"/", `/mnt/a b\c`, true, []string{"rw"}}}, ""},
		{"empty source", "5 1 0:9 / /c rw - cgroup2  rw,nsdelegate", []mount{{"/", "/c", true, []string{"rw", "nsdelegate"}}}, ""},
		{"nothing", "", nil, ""},
		{"no separator", "5 1 0:9 / /c rw cgroup2 none rw\n", nil, "line 1"},
		{"too short", pureMounts + "5 1 0:9 - cgroup2 none rw\n", nil, "line 3"},
		{"relative", "5 1 0:9 / c rw - cgroup2 none rw\n", nil, "not absolute"},
	} {
		got, err := parseMountinfo(c.in)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.bad)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestParseSelfCgroup(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     own
		bad      bool
	}{
		{"pure v2", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", own{"/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", map[string]string{}}, false},
		{"hybrid", "9:name=systemd:/s\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/u\n", own{"/u", map[string]string{"name=systemd": "/s", "memory": "/a/b", "cpu": "/", "cpuacct": "/"}}, false},
		{"v1 only", "4:memory:/\n", own{"", map[string]string{"memory": "/"}}, false},
		{"colons in the name", "0::/a:b:c\n", own{"/a:b:c", map[string]string{}}, false},
		{"short", "0:/\n", own{}, true},
		{"relative", "0::a\n", own{}, true},
	} {
		got, err := parseSelfCgroup(c.in)
		if (err != nil) != c.bad || err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		name, root, cgroup, want string
	}{
		{"root", "/", "/", "/c"},
		{"below", "/", "/a/b", "/c /c/a /c/a/b"},
		{"docker's own cgroup", "/docker/4ceb", "/docker/4ceb", "/c"},
		{"below docker's own cgroup", "/docker/4ceb", "/docker/4ceb/x", "/c /c/x"},
		{"a name that only begins alike", "/docker/4ceb", "/docker/4cebx", ""},
		{"outside the mount", "/docker/4ceb", "/", ""},
		{"outside the cgroup namespace", "/", "/../x", ""},
		{"mounted from outside the namespace", "/..", "/../x", "/c /c/x"},
		{"removed", "/", "/a (deleted)", ""},
	} {
		if got := strings.Join((mount{Root: c.root, Point: "/c"}).candidates(c.cgroup), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestParseFlat(t *testing.T) {
	got := parseFlat("oom 1\noom_kill 2\nmax max\n\nodd\n")
	if want := map[string]int64{"oom": 1, "oom_kill": 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{pureMounts, hybridMounts, dockerMounts, "0::/a\n4:memory:/b", `5 1 0:9 /\0 /c\777\04 rw - cgroup2 none`} {
		f.Add(s, "/a/b")
	}
	f.Fuzz(func(t *testing.T, text, cgroup string) {
		mounts, err := parseMountinfo(text)
		if err != nil && mounts != nil {
			t.Error("mounts and an error")
		}
		for _, m := range mounts {
			for _, d := range m.candidates(cgroup) {
				// A candidate never leaves the mount.
				p := strings.TrimSuffix(path.Clean(m.Point), "/")
				if d != p && d != "/" && !strings.HasPrefix(d, p+"/") {
					t.Errorf("candidate %q of mount %+v", d, m)
				}
			}
		}
		if o, err := parseSelfCgroup(text); err != nil && (o.V2 != "" || o.V1 != nil) {
			t.Error("cgroups and an error")
		}
		parseFlat(text)
	})
}
