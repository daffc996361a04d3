package profiles

import (
	"slices"
	"strings"
	"sync"
)

// keys are the accepted keys of a profile file, in the order of the
// documentation, each with what it wants. A final .* takes any name.
var keys = []struct{ key, want string }{
	{"version", "want 1"},
	{"name", `want a string of letters, digits and . _ - + &`},
	{"extends", `want an array of profile names, as ["base"]`},
	{"file", "want [[file]] tables"},
	{"file.path", `want an absolute path, or one that starts with ~ $WORKSPACE $TMPDIR $XDG_*`},
	{"file.path_b64", "want the bytes of an absolute path in standard base64"},
	{"file.access", `want "none" or a set of r, w, x, as "rw"`},
	{"file.carve", "want true or false"},
	{"file.optional", "want true or false"},
	{"net", "want a table"},
	{"net.mode", "want none, gate or direct"},
	{"net.allow", "want an array of HOST[:PORT] or CIDR[:PORT[/udp]]"},
	{"net.listen", "want an array of ports, 1 to 65535"},
	{"net.unix", "want an array of absolute paths"},
	{"limits", "want a table"},
	{"limits.memory", `want a size, as "512MiB"`},
	{"limits.pids", "want a positive whole number"},
	{"limits.cpu", "want a positive number of cores, as 1.5"},
	{"limits.wall", `want a duration, as "30s"`},
	{"limits.output", `want a size, as "8MiB"`},
	{"limits.files", "want a positive whole number"},
	{"limits.file_size", `want a size, as "1GiB"`},
	{"env", "want a table"},
	{"env.pass", "want an array of names"},
	{"env.set", `want a table of names and strings, as { CI = "1" }`},
	{"env.set.*", "want a string"},
	{"env.secret", `want a table, as { TOKEN = "vault:github" }`},
	{"env.secret.*", "want vault:NAME, env:NAME or file:PATH"},
	{"process", "want a table"},
	{"process.syscalls", `want "default", "strict" or ["default", NAME…] with NAME of ` + strings.Join(SyscallAdditions, ", ")},
	{"process.tty", "want true or false"},
}

// wanted maps a key to what it wants; keys that are not in it are unknown.
var wanted = sync.OnceValue(func() map[string]string {
	m := make(map[string]string, len(keys))
	for _, k := range keys {
		m[k.key] = k.want
	}
	return m
})

// wantOf finds the row of a key path without indexes.
func wantOf(key string) (string, bool) {
	for _, open := range []string{"env.set.", "env.secret."} {
		if strings.HasPrefix(key, open) {
			key = open + "*"
		}
	}
	w, ok := wanted()[key]
	return w, ok
}

// siblings lists the keys that could stand where key stands.
func siblings(key string) string {
	table := ""
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		table = key[:i+1]
	}
	var out []string
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k.key, table); ok && !strings.Contains(rest, ".") && rest != "*" {
			out = append(out, rest)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return ""
	}
	return "allowed: " + strings.Join(out, ", ")
}
