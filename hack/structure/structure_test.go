package structure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "lockbox"

// pkg is what `go list -json` says of a package of ours.
type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// path is the import path below the module: "cmd/lockbox".
func (p pkg) path() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// forbidden is the map "package → why it is forbidden" for the packages at or
// below from, and all that they link.
type forbidden struct {
	from string
	deps map[string]string
}

// directions is the order cmd → door → runner → {sandbox | seatbelt} → {bpf,
// profiles}, and what each must not link at all.
var directions = []forbidden{
	{"profiles", map[string]string{
		module + "/bpf": "profiles are values", module + "/sandbox": "profiles are values", module + "/seatbelt": "profiles are values",
		module + "/runner": "imports point down", module + "/door": "imports point down", module + "/cmd": "imports point down",
		"os/exec": "profiles start nothing", "net/http": "profiles reach nothing", "golang.org/x/sys": "profiles make no system call",
		"unsafe/": "profiles are values",
	}},
	{"bpf", map[string]string{
		module + "/profiles": "bpf imports nothing of ours", module + "/sandbox": "bpf imports nothing of ours", module + "/seatbelt": "bpf imports nothing of ours",
		module + "/runner": "imports point down", module + "/door": "imports point down", module + "/cmd": "imports point down",
	}},
	{"sandbox/seccomp", oursExcept("a filter is a value", "sandbox/seccomp")},
	{"sandbox/script", oursExcept("the child script knows no policy", "sandbox/script")},
	{"sandbox", map[string]string{
		module + "/runner": "imports point down", module + "/door": "imports point down", module + "/cmd": "imports point down",
		module + "/seatbelt": "the other system's half", "github.com/cilium/ebpf": "the thin binary links sandbox; BPF is the engine's",
		"github.com/containerd/cgroups": "slots are the runner's",
	}},
	{"seatbelt", map[string]string{
		module + "/runner": "imports point down", module + "/door": "imports point down", module + "/cmd": "imports point down",
		module + "/sandbox": "the other system's half", module + "/bpf": "seatbelt needs only profiles",
	}},
	{"runner", map[string]string{
		module + "/door": "what enforces asks nothing of what decides", module + "/cmd": "imports point down",
		"net/http": "the runner speaks to Unix sockets only",
	}},
	{"door", map[string]string{module + "/cmd": "imports point down"}},
	{"cmd/lockbox", map[string]string{
		"github.com/cilium/ebpf": "the command line starts like an empty program", "github.com/containerd/cgroups": "the command line starts like an empty program",
		"github.com/alecthomas/kong": "flags come from one table", "github.com/mark3labs/mcp-go": "costs 6 ms at every start",
		"net/http": "costs start-up time and reaches out",
	}},
}

// oursExcept forbids everything of ours outside one package.
func oursExcept(why, but string) map[string]string {
	m := map[string]string{}
	for _, top := range []string{"bpf", "profiles", "sandbox", "seatbelt", "runner", "door", "cmd"} {
		m[module+"/"+top] = why
	}
	m["!"+module+"/"+but] = ""
	return m
}

// homes maps a dependency to the packages that alone may import it (K-016), and
// to those whose tests may too.
var homes = []struct {
	dep   string
	home  []string
	tests []string
	why   string
}{
	{"github.com/cilium/ebpf", []string{"bpf"}, []string{"bpf"}, "programs and maps have one small API"},
	{"github.com/containerd/cgroups", []string{"runner/slot"}, []string{"runner/slot"}, "slots and their counters have one home"},
	{"github.com/landlock-lsm/go-landlock", []string{"sandbox"}, []string{"sandbox", "test"}, "rulesets have one home"},
	{"github.com/vishvananda/netlink", []string{"sandbox/netns"}, nil, "the child script sends prebuilt messages"},
	{"github.com/mark3labs/mcp-go", []string{"door/mcp"}, []string{"door/mcp"}, "costs 6 ms at every start; guarded in one place"},
	{"github.com/alecthomas/kong", nil, nil, "flags come from one table"},
}

// testsAnywhere are the homes that tests of every package may use as well.
var testsAnywhere = map[string]bool{"github.com/vishvananda/netlink": true}

// noShell forbids to read command text: the kernel decides (L-006, K-010).
var noShell = map[string]string{
	"regexp":                          "no pattern over command text",
	"mvdan.cc/sh":                     "no shell parser",
	"github.com/google/shlex":         "no shell parser",
	"github.com/kballard":             "no shell parser",
	"github.com/mattn/go-shellwords":  "no shell parser",
	"github.com/anmitsu/go-shlex":     "no shell parser",
	"github.com/buildkite/shellwords": "no shell parser",
}

// top is the closed list of what may lie at the top of the repository (K-017).
var top = map[string]bool{
	"go.mod": true, "go.sum": true, "cmd": true, "bpf": true, "sandbox": true, "profiles": true, "seatbelt": true, "runner": true,
	"door": true, "hack": true, "test": true, "Makefile": true,
	"README.md": true, "LICENSE": true, "SECURITY.md": true, "CONTRIBUTING.md": true, "CHANGELOG.md": true, "docs": true,
	".ci": true, ".git": true, ".gitignore": true, ".gitattributes": true, ".github": true, ".cache": true, "bin": true,
	".golangci.yml": true, ".editorconfig": true, ".clang-format": true,
}

func root(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("go env GOMOD: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// packages lists all packages of the repository. Linux on amd64 is asked for,
// so that the answer is the same everywhere.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var list []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if !strings.HasPrefix(p.ImportPath, module+"/") {
			t.Errorf("%s lies outside the folders of the repository", p.ImportPath)
		}
		list = append(list, p)
	}
	if len(list) < 3 {
		t.Fatalf("go list found %d packages; the test would prove nothing", len(list))
	}
	return list
}

// covers reports whether an import path is pattern or lies below it.
func covers(pattern, path string) bool {
	return path == pattern || strings.HasPrefix(path, pattern+"/")
}

func anyCovers(patterns []string, path string) bool {
	for _, p := range patterns {
		if covers(p, path) {
			return true
		}
	}
	return false
}

// violations lists what a package links against the map. A key that starts
// with "!" is allowed in spite of the others.
func (f forbidden) violations(p pkg) []string {
	var out []string
	for _, dep := range p.Deps {
		for pattern, why := range f.deps {
			if covers(pattern, dep) && !f.excepted(dep) {
				out = append(out, fmt.Sprintf("%s links %s: %s", p.path(), dep, why))
			}
		}
	}
	return out
}

func (f forbidden) excepted(dep string) bool {
	for pattern := range f.deps {
		if but, ok := strings.CutPrefix(pattern, "!"); ok && covers(but, dep) {
			return true
		}
	}
	return false
}

// applies picks the row for a package: sandbox/seccomp has its own besides
// that of sandbox.
func (f forbidden) applies(path string) bool {
	if f.from == "cmd/lockbox" {
		return path == f.from || path == "cmd/internal/cli"
	}
	return covers(f.from, path)
}

// K-001, K-016, L-001: imports point one way.
func TestDirections(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range directions {
			if !f.applies(p.path()) {
				continue
			}
			for _, v := range f.violations(p) {
				t.Error(v)
			}
		}
	}
}

// L-001: of the packages below door, only spawn calls the runner.
func TestOnlySpawnCallsTheRunner(t *testing.T) {
	for _, p := range packages(t) {
		if !covers("door", p.path()) || covers("door/spawn", p.path()) {
			continue
		}
		for _, dep := range p.Imports {
			if covers(module+"/runner", dep) || covers(module+"/sandbox", dep) || dep == "os/exec" {
				t.Errorf("%s imports %s: only door/spawn starts anything, through the runner", p.path(), dep)
			}
		}
	}
}

// K-016: each big dependency has one home.
func TestHomes(t *testing.T) {
	for _, p := range packages(t) {
		for _, h := range homes {
			for _, dep := range p.Imports {
				if covers(h.dep, dep) && !anyCovers(h.home, p.path()) && !generator(p, h.home) {
					t.Errorf("%s imports %s: only %v may; %s", p.path(), dep, h.home, h.why)
				}
			}
			for _, dep := range append(append([]string{}, p.TestImports...), p.XTestImports...) {
				if covers(h.dep, dep) && !testsAnywhere[h.dep] && !anyCovers(h.tests, p.path()) {
					t.Errorf("tests of %s import %s: only those of %v may; %s", p.path(), dep, h.tests, h.why)
				}
			}
		}
	}
}

// generator allows the program below a home that writes its generated code.
func generator(p pkg, home []string) bool {
	return anyCovers(home, p.path()) && strings.HasSuffix(p.path(), "/gen")
}

// K-016: the named modules are what the build uses.
func TestModules(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/cilium/ebpf ", "github.com/landlock-lsm/go-landlock ", "github.com/containerd/cgroups/v3 ",
		"github.com/vishvananda/netlink ", "golang.org/x/sys "} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("go.mod does not require %s", want)
		}
	}
}

// K-017: the top of the repository is a closed list.
func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !top[e.Name()] {
			t.Errorf("%s lies at the top of the repository; allowed are the folders of the architecture and the usual files", e.Name())
		}
	}
}

// L-006, K-010: nothing of what decides or enforces reads command text.
func TestNoShellText(t *testing.T) {
	for _, p := range packages(t) {
		if !anyCovers([]string{"door", "warden", "runner", "sandbox"}, p.path()) {
			continue
		}
		for _, dep := range p.Imports {
			for pattern, why := range noShell {
				if covers(pattern, dep) {
					t.Errorf("%s imports %s: %s", p.path(), dep, why)
				}
			}
		}
		for _, name := range p.GoFiles {
			for _, use := range shellUses(t, filepath.Join(p.Dir, name)) {
				t.Errorf("%s: a shell is started: commands are argument arrays", use)
			}
		}
	}
}

// shellUses finds calls with a shell's name followed by "-c" among the
// arguments.
func shellUses(t *testing.T, path string) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("%v", err)
		return nil
	}
	var uses []string
	ast.Inspect(file, func(n ast.Node) bool {
		var list []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			list = n.Args
		case *ast.CompositeLit:
			list = n.Elts
		}
		for i := 0; i+1 < len(list); i++ {
			if isShell(literal(list[i])) && literal(list[i+1]) == "-c" {
				uses = append(uses, fset.Position(n.Pos()).String())
			}
		}
		return true
	})
	return uses
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

func isShell(name string) bool {
	switch filepath.Base(name) {
	case "sh", "bash", "dash", "zsh", "ksh", "busybox":
		return true
	}
	return false
}

// Files that import unsafe say so in their name, and there is no cgo.
func TestUnsafeAndCgo(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo in %v", p.path(), p.CgoFiles)
		}
		names := append(append(append([]string{}, p.GoFiles...), p.TestGoFiles...), p.XTestGoFiles...)
		for _, name := range names {
			path := filepath.Join(p.Dir, name)
			for _, dep := range imports(t, path) {
				if dep == "C" {
					t.Errorf("%s uses cgo", path)
				}
				if dep == "unsafe" && !unsafeName(name) {
					t.Errorf("%s imports unsafe: its name has to end in _unsafe.go", path)
				}
			}
		}
	}
}

func imports(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("%v", err)
		return nil
	}
	var list []string
	for _, spec := range file.Imports {
		if s, err := strconv.Unquote(spec.Path.Value); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// unsafeName accepts x_unsafe.go, x_unsafe_test.go, and those with a system or
// an architecture behind.
func unsafeName(name string) bool {
	stem := strings.TrimSuffix(name, ".go")
	stem = strings.TrimSuffix(stem, "_test")
	for _, tag := range []string{"_amd64", "_arm64", "_linux", "_darwin", "_other"} {
		stem = strings.TrimSuffix(stem, tag)
	}
	return strings.HasSuffix(stem, "_unsafe")
}

// The checks themselves find what they look for.
func TestTheTestsSee(t *testing.T) {
	bad := pkg{ImportPath: module + "/profiles", Deps: []string{"os/exec", module + "/runner/slot"}}
	if got := directions[0].violations(bad); len(got) != 2 {
		t.Errorf("violations of profiles: got %q, want 2", got)
	}
	own := pkg{ImportPath: module + "/sandbox/script", Deps: []string{module + "/sandbox/script/asm", module + "/profiles"}}
	if got := directions[3].violations(own); len(got) != 1 {
		t.Errorf("violations of script: got %q, want 1", got)
	}
	for name, want := range map[string]bool{"a_unsafe.go": true, "a_unsafe_test.go": true, "a_unsafe_amd64.go": true, "unsafe.go": false, "a.go": false} {
		if unsafeName(name) != want {
			t.Errorf("unsafeName(%q) = %v", name, !want)
		}
	}
	path := filepath.Join(t.TempDir(), "x.go")
	src := "package x\nvar a = []string{\"/bin/sh\", \"-c\", \"id\"}\nfunc f() { run(\"bash\", \"-c\", text) }\nfunc g() { run(\"ls\", \"-c\") }\n"
	if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shellUses(t, path); len(got) != 2 {
		t.Errorf("shellUses: got %q, want 2", got)
	}
}
