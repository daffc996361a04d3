package sandbox

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/profiles/profiletest"
	"lockbox/sandbox/pid1"
)

// seedVar repeats a run; casesVar makes it longer.
const (
	seedVar  = "LOCKBOX_TEST_SEED"
	casesVar = "LOCKBOX_TEST_CASES"
)

func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(seedVar); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVar, err)
		}
		seed = n
	}
	t.Logf("repeat with %s=%d", seedVar, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// question is one case: what is asked of the kernel and what of Decide.
type question struct {
	ask    ask
	op     profiles.Op
	object profiles.Object
}

// questionOf turns a random case into one that the kernel can answer without a
// side effect that stays.
func questionOf(r *rand.Rand, op profiles.Op, o profiles.Object, isDir map[string]bool) (question, bool) {
	q := question{op: op, object: o}
	switch op {
	case profiles.OpExec, profiles.OpLink: // of directories there is neither
		if isDir[o.Path] {
			q.object.Path = path.Join(o.Path, "f")
			if _, known := isDir[q.object.Path]; !known {
				return q, false
			}
		}
	}
	switch op {
	case profiles.OpCreate:
		q.object.Path = path.Join(path.Dir(o.Path), fresh)
	case profiles.OpRename, profiles.OpLink:
		// To a name that is free, beside or in what the case names.
		dir := o.To
		if !isDir[dir] || r.IntN(2) == 0 {
			dir = path.Dir(dir)
		}
		if op == profiles.OpRename && (dir == o.Path || strings.HasPrefix(dir, o.Path+"/")) {
			return q, false // into itself: EINVAL whatever the policy
		}
		q.object.To = path.Join(dir, fresh)
	}
	q.ask = do(op.String(), q.object.Path)
	if q.object.To != "" {
		q.ask = do(op.String(), q.object.Path, q.object.To)
	}
	if op == profiles.OpMetadata {
		q.ask.Op = "chmod"
	}
	return q, true
}

// denials are the errnos by which a mechanism of the sandbox refuses; others
// are the file system's own.
var denials = map[error]bool{unix.EACCES: true, unix.EPERM: true, unix.ENOENT: true, unix.EROFS: true, unix.EXDEV: true, unix.EBUSY: true, unix.ENOTDIR: true}

// known are the differences that the documentation names. Each says why.
func known(q question, a answer, d profiles.Decision) string {
	switch {
	case d.Rule == "builtin:tmp" && a.Errno == unix.ENOENT:
		// Decide looks at names: the private /tmp has the right, but not the
		// host's file.
		return "the private /tmp is empty"
	case q.op == profiles.OpStat && a.Errno == 0 && (a.Out == "40000" || a.Out == "100000" || a.Out == "40111"):
		// A mask shows itself: an empty entry of mode 0 (0111 with open entries
		// below), not what lies under it.
		return "a mask shows that it is there"
	}
	return ""
}

// K-002, K-028: what the kernel does is what Decide says, for random profiles
// and questions.
func TestKernelAnswersAsDecide(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		want := 2000
		if guest() {
			want = 500
		}
		if s := os.Getenv(casesVar); s != "" {
			want, _ = strconv.Atoi(s)
		}
		r := random(t)
		roots := []string{tree(t), tree(t), treeIn(t, "/tmp")}
		dirs, files := profiletest.Tree(roots)
		isDir := map[string]bool{}
		for _, d := range append(roots, dirs...) {
			isDir[d] = true
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range files {
			isDir[f] = false
			if err := os.WriteFile(f, pid1.Binary, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var cases, refused, started, allowed, bad int
		byOp := map[profiles.Op][2]int{}
		differences := map[string]int{}
		for cases < want {
			p := profiletest.Random(r, roots)
			p.Net, p.Limits, p.Process = profiles.Net{}, profiles.Limits{}, profiles.Process{}
			if r.IntN(8) == 0 {
				p = profiles.Join(p, grants([]string{"r /", "rx /"}[r.IntN(2)]))
			}
			var asks []ask
			var questions []question
			for len(questions) < 60 {
				op, o := profiletest.Case(r, roots)
				if q, ok := questionOf(r, op, o, isDir); ok {
					questions, asks = append(questions, q), append(asks, q.ask)
				}
			}
			s := &setup{profile: p, caller: profiles.Terminal}
			if _, _, err := compileRun(t, s); err != nil {
				var cannot *CannotEnforceError
				if !errors.As(err, &cannot) {
					t.Fatalf("compile: %v\n%s", err, p)
				}
				refused++
				continue
			}
			started++
			got := confine(t, s, asks...)
			for i, q := range questions {
				d := got.sealed.Decide(q.op, q.object)
				a := got.answers[i]
				if why := known(q, a, d); why != "" {
					differences[why]++
					continue
				}
				cases++
				n := byOp[q.op]
				if d.Allow {
					allowed++
					n[0]++
				} else {
					n[1]++
				}
				byOp[q.op] = n
				if d.Allow == (a.Errno == 0) && (a.Errno == 0 || denials[a.Errno]) {
					continue
				}
				if bad++; bad < 12 {
					t.Errorf("%s: the kernel says %v (%s), Decide says %v by %s\nprofile:\n%s", q.ask, a.Errno, a.Out, d.Allow, d.Rule, p)
				}
			}
			if bad >= 12 {
				t.Fatalf("%d differences; stopped", bad)
			}
		}
		t.Logf("%d cases (%d allowed) in %d profiles; %d profiles cannot be enforced; known differences: %v; by operation [allowed denied]: %v", cases, allowed, started, refused, differences, byOp)
		if refused >= started*2 {
			t.Errorf("%d of %d profiles refused: too many to mean anything", refused, refused+started)
		}
		if allowed < cases/20 || allowed > cases*19/20 {
			t.Errorf("%d of %d allowed: the cases show one side only", allowed, cases)
		}
		// The positive control: everything works for the same user without a sandbox.
		var asks []ask
		for len(asks) < 300 {
			op, o := profiletest.Case(r, roots)
			if q, ok := questionOf(r, op, o, isDir); ok && !(len(q.object.To) > 0 && across(q, roots)) {
				asks = append(asks, q.ask)
			}
		}
		for i, a := range unconfined(t, asks...) {
			if a.Errno != 0 {
				t.Errorf("control: %s: %v", asks[i], a.Errno)
			}
		}
	})
}

// across reports whether the case leads from /tmp elsewhere: another file system
// on many hosts.
func across(q question, roots []string) bool {
	return strings.HasPrefix(q.object.Path, "/tmp/") != strings.HasPrefix(q.object.To, "/tmp/")
}

// K-002: destinations under net none, as far as no egress program is needed.
func TestKernelAnswersAsDecideForDestinations(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		r := random(t)
		var asks []ask
		var questions []question
		for range 400 {
			op, o := profiletest.NetCase(r)
			proto := "tcp"
			if op == profiles.OpSend {
				proto = "udp"
			}
			questions = append(questions, question{op: op, object: o})
			asks = append(asks, do("connect", proto, o.Addr.String(), strconv.Itoa(int(o.Port))))
		}
		asks = append(asks, do("own-loopback"))
		got := confine(t, &setup{profile: grants()}, asks...)
		for i, q := range questions {
			d, a := got.sealed.Decide(q.op, q.object), got.answers[i]
			if q.object.Addr.Unmap() == netip.IPv4Unspecified() && a.Errno == 0 {
				continue // the kernel takes it for loopback (RFC 1122, 3.2.1.3): the run's own
			}
			if d.Allow != (a.Errno == 0) || a.Errno == unix.EPERM {
				t.Errorf("%s: the kernel says %v, Decide says %v by %s", asks[i], a.Errno, d.Allow, d.Rule)
			}
		}
		if a := got.answers[len(asks)-1]; a.Errno != 0 {
			t.Errorf("the run's own server on loopback: %v, must work", a.Errno)
		}
	})
}
