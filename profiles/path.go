package profiles

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxPath is the kernel's PATH_MAX, in bytes.
const maxPath = 4096

// Expand holds what ~ and $NAME at the start of a path stand for. Every value is
// an absolute path; an empty one means that this run has no such place.
type Expand struct {
	Home      string
	Workspace string
	TmpDir    string
	// XDG maps XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_DATA_HOME, XDG_STATE_HOME and
	// XDG_RUNTIME_DIR to paths, defaults filled in by the caller.
	XDG map[string]string
	// StateDirs hold the state of lockbox; ConfigDirs its configuration and named
	// profiles. Both are closed in every run.
	StateDirs  []string
	ConfigDirs []string
	UID        int
	// Platform is "linux" or "darwin"; empty means linux.
	Platform string
}

// errUnset says that a path starts with a variable that has no value here.
type errUnset struct{ name string }

func (e errUnset) Error() string { return e.name + " has no value here" }

// Path expands a leading ~ or $NAME of raw once and cleans the result lexically:
// "..", ".", "//" and a trailing slash go. A path that is then not absolute is
// an error.
func (ex Expand) Path(raw string) (string, error) {
	full, err := ex.expand(raw)
	if err != nil {
		return "", err
	}
	return cleanPath(full)
}

func (ex Expand) expand(raw string) (string, error) {
	if raw == "" || raw[0] != '~' && raw[0] != '$' {
		return raw, nil
	}
	head, rest, _ := strings.Cut(raw, "/")
	value, err := ex.value(head)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(value, "/") {
		return "", fmt.Errorf("%s is %q, not an absolute path", head, value)
	}
	return value + "/" + rest, nil
}

func (ex Expand) value(head string) (string, error) {
	var v string
	switch {
	case head == "~":
		v = ex.Home
	case head == "$TMPDIR":
		v = ex.TmpDir
	case head == "$WORKSPACE":
		if err := ex.checkWorkspace(); err != nil {
			return "", err
		}
		v = ex.Workspace
	case slices.Contains(xdgNames, head):
		v = ex.XDG[head[1:]]
	default:
		return "", fmt.Errorf("unknown variable %q; known: ~ $WORKSPACE $TMPDIR %s", head, strings.Join(xdgNames, " "))
	}
	if v == "" {
		return "", errUnset{head}
	}
	return v, nil
}

// xdgNames are the variables of the XDG base directory specification 0.8.
var xdgNames = []string{"$XDG_CONFIG_HOME", "$XDG_CACHE_HOME", "$XDG_DATA_HOME", "$XDG_STATE_HOME", "$XDG_RUNTIME_DIR"}

// checkWorkspace refuses a workspace that would open the home, all of the host,
// or the state of lockbox.
func (ex Expand) checkWorkspace() error {
	if ex.Workspace == "" {
		return nil
	}
	w := path.Clean(ex.Workspace)
	if w == "/" || ex.Home != "" && within(path.Clean(ex.Home), w) {
		return fmt.Errorf("%q cannot be the workspace: it is /, the home, or above the home", w)
	}
	for _, dir := range slices.Concat(ex.StateDirs, ex.ConfigDirs) {
		if within(path.Clean(dir), w) {
			return fmt.Errorf("%q cannot be the workspace: it holds %q, which is closed in every run", w, dir)
		}
	}
	return nil
}

func cleanPath(p string) (string, error) {
	switch {
	case strings.IndexByte(p, 0) >= 0:
		return "", fmt.Errorf("path %q holds a NUL byte", shorten(p))
	case len(p) > maxPath:
		return "", fmt.Errorf("path %q is %d bytes long; at most %d", shorten(p), len(p), maxPath)
	case !strings.HasPrefix(p, "/"):
		return "", fmt.Errorf("path %q is not absolute", shorten(p))
	}
	return path.Clean(p), nil
}

// shorten keeps error lines short.
func shorten(s string) string {
	if len(s) <= 80 {
		return s
	}
	return s[:77] + "..."
}

// within reports whether clean path p is dir or below it.
func within(p, dir string) bool {
	return dir == "/" || strings.HasPrefix(p, dir) && (len(p) == len(dir) || p[len(dir)] == '/')
}

// parentOf is the enclosing directory of a clean path; "/" has none.
func parentOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "/"
}

// comparePaths orders a directory before what is below it, and all of that
// before its next sibling: "/" sorts before every other byte.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		if x, y := a[i], b[i]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/':
				return 1
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

func sortPaths(list []string) { slices.SortFunc(list, comparePaths) }
