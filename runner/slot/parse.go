package slot

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A mount is one cgroup mount of /proc/self/mountinfo.
type mount struct {
	Root    string   // the cgroup that is visible at Point, as seen from our cgroup namespace
	Point   string   // where it is mounted
	V2      bool     // cgroup2
	Options []string // super options; on v1 they name the controllers
}

// parseMountinfo returns the cgroup mounts in the order of the file (proc_pid_mountinfo(5)).
func parseMountinfo(text string) ([]mount, error) {
	var out []mount
	for n, line := range lines(text) {
		// 31 30 0:28 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 6 || len(g) < 1 {
			return nil, fmt.Errorf("mountinfo line %d: want 6 fields, \" - \" and a type: %q", n+1, line)
		}
		if g[0] != "cgroup" && g[0] != "cgroup2" {
			continue
		}
		m := mount{Root: unescape(f[3]), Point: unescape(f[4]), V2: g[0] == "cgroup2"}
		if !path.IsAbs(m.Root) || !path.IsAbs(m.Point) {
			return nil, fmt.Errorf("mountinfo line %d: a path is not absolute: %q", n+1, line)
		}
		if len(g) > 1 { // the source may be empty, so the options are the last field, not the third
			m.Options = strings.Split(g[len(g)-1], ",")
		}
		out = append(out, m)
	}
	return out, nil
}

// own is what /proc/self/cgroup says about us.
type own struct {
	V2 string            // "" if there is no v2 hierarchy
	V1 map[string]string // by controller
}

// parseSelfCgroup reads the lines ID:CONTROLLERS:PATH of cgroups(7).
func parseSelfCgroup(text string) (own, error) {
	o := own{V1: map[string]string{}}
	for n, line := range lines(text) {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 || !path.IsAbs(f[2]) {
			return own{}, fmt.Errorf("cgroup line %d: want ID:CONTROLLERS:/PATH: %q", n+1, line)
		}
		if f[1] == "" {
			o.V2 = f[2]
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			o.V1[c] = f[2]
		}
	}
	return o, nil
}

// has tells whether a v1 mount owns a controller.
func (m mount) has(controller string) bool { return !m.V2 && slices.Contains(m.Options, controller) }

// candidates returns the directories between the mount point and our own cgroup, top-most first. It returns nothing if our
// cgroup cannot be seen through this mount: it lies outside the mount's root or our cgroup namespace, or was removed.
func (m mount) candidates(cgroup string) []string {
	if strings.HasSuffix(cgroup, " (deleted)") {
		return nil
	}
	rel, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(m.Root, "/"))
	if !ok || rel != "" && rel[0] != '/' {
		return nil
	}
	out := []string{path.Clean(m.Point)}
	for _, name := range strings.Split(rel, "/") {
		switch name {
		case "", ".":
		case "..":
			return nil
		default:
			out = append(out, path.Join(out[len(out)-1], name))
		}
	}
	return out
}

// parseFlat reads a flat keyed file such as memory.events: KEY VALUE per line. Values that are no number are left out.
func parseFlat(text string) map[string]int64 {
	out := map[string]int64{}
	for _, line := range lines(text) {
		k, v, ok := strings.Cut(line, " ")
		if n, err := strconv.ParseInt(v, 10, 64); ok && err == nil {
			out[k] = n
		}
	}
	return out
}

// lines splits text into lines and drops empty ones.
func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return s == "" })
}

// unescape undoes the \ooo of mountinfo (space, tab, newline, backslash).
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
