package sandbox

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lockbox/profiles"
)

// setup is one confined run of a test.
type setup struct {
	profile *profiles.Profile
	expand  profiles.Expand
	caller  profiles.Caller
	host    func(*Host)
	options Options
	start   StartOptions
	plan    func(*Plan) // changes the plan before it starts
	stdin   []byte
}

// outcome is what became of it.
type outcome struct {
	sealed  *Sealed
	plan    *Plan
	exit    Exit
	out     string
	errs    string
	answers []answer
}

// grants makes a profile: "r PATH", "rw PATH" …; "-r PATH" is a carve-out with
// that cap, "-none PATH" closes; a trailing "?" makes the rule optional.
func grants(rules ...string) *profiles.Profile {
	p := &profiles.Profile{Name: "test"}
	for _, r := range rules {
		access, path, _ := strings.Cut(r, " ")
		optional := strings.HasSuffix(access, "?")
		access = strings.TrimSuffix(access, "?")
		a, err := profiles.ParseAccess(strings.TrimPrefix(access, "-"))
		if err != nil {
			panic(err)
		}
		if strings.HasPrefix(access, "-") {
			p.Carves = append(p.Carves, profiles.Carve{Path: path, Cap: a, Optional: optional, ID: "test:" + r})
		} else {
			p.Grants = append(p.Grants, profiles.Grant{Path: path, Access: a, Optional: optional, ID: "test:" + r})
		}
	}
	return profiles.Join(&profiles.Profile{}, p)
}

// system is what a shell, git or python needs to start.
func system(rules ...string) *profiles.Profile {
	return grants(append(rules, "rx /usr", "rx? /bin", "rx? /lib", "rx? /lib64", "r? /etc/ld.so.cache", "r? /etc/passwd", "r? /etc/group", "rx? /etc/alternatives")...)
}

// loader is what a test binary with cgo (-race) needs; a static one needs nothing.
var loader = []string{"rx? /lib64", "rx? /lib", "rx? /usr/lib", "r? /etc/ld.so.cache"}

// withProber lets the profile's run execute the test binary.
func withProber(p *profiles.Profile) *profiles.Profile {
	return profiles.Join(p, grants(append(loader, "rx "+prober)...))
}

func compileRun(t testing.TB, s *setup) (*Sealed, *Plan, error) {
	t.Helper()
	if s.expand.TmpDir == "" {
		s.expand.TmpDir = "/tmp"
	}
	sealed, err := Seal(withProber(s.profile), s.expand, s.caller, OSFS{})
	if err != nil {
		return nil, nil, err
	}
	h, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	if s.host != nil {
		s.host(h)
	}
	o := s.options
	if o.Path == "" {
		o.Path, o.Argv = prober, []string{prober}
	}
	if o.Env == nil {
		o.Env = []string{roleVar + "=probe"}
	}
	if o.Dir == "" {
		o.Dir = "/"
	}
	o.Attended, o.Links = true, sealed.Links
	p, err := Compile(sealed.Sealed, h, o)
	if err == nil && s.plan != nil {
		s.plan(p)
	}
	return sealed, p, err
}

// start compiles and starts; its error is Compile's or Start's.
func start(t testing.TB, s *setup) (*outcome, error) {
	t.Helper()
	sealed, p, err := compileRun(t, s)
	if err != nil {
		return nil, err
	}
	o := &outcome{sealed: sealed, plan: p}
	so := s.start
	var inW, outR, errR *os.File
	pipes := func(r, w **os.File) {
		if *r, *w, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	var mine []*os.File
	if so.Stdin == nil {
		pipes(&so.Stdin, &inW)
		mine = append(mine, so.Stdin)
	}
	if so.Stdout == nil {
		pipes(&outR, &so.Stdout)
		mine = append(mine, so.Stdout)
	}
	if so.Stderr == nil {
		pipes(&errR, &so.Stderr)
		mine = append(mine, so.Stderr)
	}
	if so.CgroupFD == 0 {
		so.CgroupFD = -1
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	proc, err := p.Start(so)
	for _, f := range mine {
		f.Close()
	}
	read := func(r *os.File) chan string {
		c := make(chan string, 1)
		if r == nil {
			c <- ""
			return c
		}
		go func() { b, _ := io.ReadAll(r); r.Close(); c <- string(b) }()
		return c
	}
	outC, errC := read(outR), read(errR)
	if inW != nil {
		go func() { inW.Write(s.stdin); inW.Close() }()
	}
	if err != nil {
		<-outC
		<-errC
		return o, err
	}
	o.exit, err = proc.Wait()
	o.out, o.errs = <-outC, <-errC
	return o, err
}

// confine starts the prober with questions and returns its answers.
func confine(t testing.TB, s *setup, asks ...ask) *outcome {
	t.Helper()
	b, err := json.Marshal(asks)
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = b
	o, err := start(t, s)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if o.exit.Code != 0 || o.exit.Signal != 0 || o.exit.ExecErrno != 0 {
		t.Fatalf("the prober ended with %+v: %s%s", o.exit, o.out, o.errs)
	}
	o.answers = decode(t, []byte(o.out), asks)
	return o
}

// unconfined asks the same of a plain child of the same user: the positive control.
func unconfined(t testing.TB, asks ...ask) []answer {
	t.Helper()
	b, err := json.Marshal(asks)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(prober)
	cmd.Env = []string{roleVar + "=probe"}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(b)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("unconfined prober: %v: %s", err, errs.String())
	}
	return decode(t, out, asks)
}

func decode(t testing.TB, out []byte, asks []ask) []answer {
	t.Helper()
	var answers []answer
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(asks) {
		t.Fatalf("%d answers to %d questions, %v: %s", len(answers), len(asks), err, out)
	}
	for i, a := range answers {
		if a.Fault != "" {
			t.Fatalf("%s: %s", asks[i], a.Fault)
		}
	}
	return answers
}

// row is a question with the errnos that are right; none means that it must work.
type row struct {
	ask  ask
	want []error
}

func yes(op string, args ...string) row              { return row{ask: do(op, args...)} }
func no(want []error, op string, args ...string) row { return row{do(op, args...), want} }
func errs(e ...error) []error                        { return e }

// check asks all rows confined, and the denied ones unconfined too, where they
// must work (the same user, the same objects, no sandbox).
func check(t *testing.T, s *setup, rows []row) *outcome {
	t.Helper()
	var asks, denied []ask
	for _, r := range rows {
		asks = append(asks, r.ask)
		if r.want != nil {
			denied = append(denied, r.ask)
		}
	}
	o := confine(t, s, asks...)
	for i, r := range rows {
		judge(t, "inside", r, o.answers[i])
	}
	if len(denied) > 0 {
		for i, a := range unconfined(t, denied...) {
			if a.Errno != 0 {
				t.Errorf("positive control, outside: %s: %v; it must work there", denied[i], a.Errno)
			}
		}
	}
	return o
}

func judge(t *testing.T, where string, r row, a answer) {
	t.Helper()
	if r.want == nil {
		if a.Errno != 0 {
			t.Errorf("%s: %s: %v, must work", where, r.ask, a.Errno)
		}
		return
	}
	for _, e := range r.want {
		if a.Errno == e {
			return
		}
	}
	t.Errorf("%s: %s: %v (%s), want one of %v", where, r.ask, a.Errno, a.Out, r.want)
}

// dirs makes directories below a new one outside /tmp and returns its path.
func tree(t testing.TB, entries ...string) string {
	t.Helper()
	return treeIn(t, base, entries...)
}

// treeIn fills a new directory of parent: "d/" is a directory, "f" a file that
// holds its name, "l->t" a symlink.
func treeIn(t testing.TB, parent string, entries ...string) string {
	t.Helper()
	top, err := os.MkdirTemp(parent, "t-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(top, 0o755)
	t.Cleanup(func() { os.RemoveAll(top) })
	for _, e := range entries {
		if at, target, ok := strings.Cut(e, "->"); ok {
			if err := os.Symlink(target, filepath.Join(top, at)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		p := top + "/" + strings.TrimSuffix(e, "/")
		dir := filepath.Dir(p)
		if strings.HasSuffix(e, "/") {
			dir = p
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir != p {
			if err := os.WriteFile(p, []byte(e), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return top
}
