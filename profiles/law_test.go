package profiles_test

import (
	"slices"
	"testing"

	"lockbox/profiles"
	"lockbox/profiles/profiletest"
)

var roots = []string{"/r1", "/r2/s"}

const rounds = 600

func equal(t *testing.T, law string, a, b *profiles.Profile, from ...*profiles.Profile) {
	t.Helper()
	if a.String() == b.String() {
		return
	}
	for i, f := range from {
		t.Logf("input %d:\n%s\n%+v\n%+v", i, f, f.Grants, f.Carves)
	}
	t.Fatalf("%s:\n%s\n---\n%s", law, a, b)
}

// soundness 12.
func TestLawsMeet(t *testing.T) {
	r := newRand(t)
	for range rounds {
		a, b, c := profiletest.Random(r, roots), profiletest.Random(r, roots), profiletest.Random(r, roots)
		ab := profiles.Meet(a, b)
		equal(t, "commutative", ab, profiles.Meet(b, a), a, b)
		equal(t, "idempotent", profiles.Meet(a, a), a, a)
		equal(t, "associative", profiles.Meet(ab, c), profiles.Meet(a, profiles.Meet(b, c)), a, b, c)
		for range 20 {
			p := profiletest.Path(r, roots)
			if got, want := ab.Access(p), modelAccess(a, p)&modelAccess(b, p); got != want {
				t.Fatalf("Meet gives %s to %q, want %s\n%s\n%s", got, p, want, a, b)
			}
		}
		checkMeetRest(t, ab, a, b)
		// What survives in the text is what holds; only whether a path may be
		// absent can hang on a grant that was left out.
		printed := profiles.Meet(reparse(t, a), reparse(t, b))
		for range 20 {
			p := profiletest.Path(r, roots)
			if got, want := printed.Access(p), ab.Access(p); got != want {
				t.Fatalf("Meet of what was printed gives %s to %q, want %s", got, p, want)
			}
		}
	}
}

// checkMeetRest: nothing in m that a or b lacks.
func checkMeetRest(t *testing.T, m *profiles.Profile, sides ...*profiles.Profile) {
	t.Helper()
	for _, s := range sides {
		if m.Net.Mode > s.Net.Mode || m.Process.TTY && !s.Process.TTY {
			t.Fatalf("Meet widens:\n%s\n%s", m, s)
		}
		for _, u := range m.Net.Unix {
			if !slices.Contains(s.Net.Unix, u) {
				t.Fatalf("Meet adds the socket %s", u)
			}
		}
		for _, n := range m.Env.Pass {
			if !slices.Contains(s.Env.Pass, n) {
				t.Fatalf("Meet adds the variable %s", n)
			}
		}
		for k, v := range m.Env.Set {
			if s.Env.Set[k] != v {
				t.Fatalf("Meet sets %s", k)
			}
		}
		if s.Limits.Memory != 0 && (m.Limits.Memory == 0 || m.Limits.Memory > s.Limits.Memory) {
			t.Fatalf("Meet widens memory")
		}
		for _, x := range m.Process.Syscalls.Additions {
			if !slices.Contains(s.Process.Syscalls.Additions, x) {
				t.Fatalf("Meet adds %s", x)
			}
		}
	}
}

func TestLawsMeetNet(t *testing.T) {
	r := newRand(t)
	for range rounds {
		a, b := profiletest.Random(r, roots), profiletest.Random(r, roots)
		a.Net.Mode, b.Net.Mode = profiles.NetDirect, profiles.NetDirect
		a, b = profiles.Join(&profiles.Profile{}, a), profiles.Join(&profiles.Profile{}, b)
		m := profiles.Meet(a, b)
		s := seal(t, m)
		for range 40 {
			op, o := profiletest.NetCase(r)
			want := modelNet(a, o) && modelNet(b, o)
			if got := s.Decide(op, o); got.Allow != want {
				t.Fatalf("%s %v: got %v want %v\n%v\n%v\n%v", op, o, got, want, a.Net, b.Net, m.Net)
			}
		}
	}
}

func TestLawsJoin(t *testing.T) {
	r := newRand(t)
	for range rounds {
		a, b, c := profiletest.Random(r, roots), profiletest.Random(r, roots), profiletest.Random(r, roots)
		j := profiles.Join(a, b)
		for range 20 {
			p := profiletest.Path(r, roots)
			got := j.Access(p)
			for _, x := range []struct{ one, other *profiles.Profile }{{a, b}, {b, a}} {
				outside := !slices.ContainsFunc(x.other.Carves, func(c profiles.Carve) bool { return under(p, c.Path) })
				if outside && !got.Has(modelAccess(x.one, p)) {
					t.Fatalf("Join narrows %q to %s\n%s\n%s", p, got, a, b)
				}
			}
		}
		left, right := profiles.Join(j, c), profiles.Join(a, profiles.Join(b, c))
		left.Net, right.Net = profiles.Net{}, profiles.Net{} // an unnarrowed gate beside direct has no equal
		equal(t, "associative", left, right, a, b, c)
		equal(t, "idempotent", profiles.Join(a, a), a, a)
	}
}

func reparse(t testing.TB, p *profiles.Profile) *profiles.Profile {
	t.Helper()
	d, err := profiles.Parse("printed", []byte(p.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	q, err := profiles.Load([]string{"printed"}, func(string) (*profiles.Document, error) { return d, nil }, profiles.Expand{})
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	return q
}

func TestLawPrint(t *testing.T) {
	r := newRand(t)
	for range rounds {
		a, b := profiletest.Random(r, roots), profiletest.Random(r, roots)
		for _, p := range []*profiles.Profile{a, profiles.Join(a, b), profiles.Meet(a, b)} {
			q := reparse(t, p)
			equal(t, "parse(print(p)) = p", q, p, p)
			if q.Hash() != p.Hash() || len(p.Hash()) != 64 {
				t.Fatalf("hash %q and %q", q.Hash(), p.Hash())
			}
			for range 20 {
				path := profiletest.Path(r, roots)
				if got, want := q.Access(path), modelAccess(p, path); got != want {
					t.Fatalf("after printing %q has %s, want %s\n%s", path, got, want, p)
				}
			}
		}
	}
}

func seal(t testing.TB, p *profiles.Profile) *profiles.Sealed {
	t.Helper()
	s, err := profiles.Seal(p, profiles.Expand{Home: "/home/u", TmpDir: "/tmp"}, profiles.Terminal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDecideEqualsModel(t *testing.T) {
	r := newRand(t)
	allowed := 0
	for range rounds {
		p := profiletest.Random(r, roots)
		s, m := seal(t, p), newModel(p)
		for range 60 {
			op, o := profiletest.Case(r, roots)
			got := s.Decide(op, o)
			if want := m.allow(op, o); got.Allow != want {
				t.Fatalf("%s %q %q: %+v, want %v\n%s\n%+v\nrules %v\npins %v", op, o.Path, o.To, got, want, p, p.Carves, s.Rules(), s.Pins())
			}
			if got.Rule == "" || len(got.Steps) == 0 {
				t.Fatalf("%s %q: no reason: %+v", op, o.Path, got)
			}
			if got.Allow {
				allowed++
			}
			op, o = profiletest.NetCase(r)
			if got, want := s.Decide(op, o), modelNet(p, o); got.Allow != want {
				t.Fatalf("%s %v: %+v, want %v\n%v", op, o, got, want, p.Net)
			}
		}
		for _, rule := range s.Rules() {
			if under(rule.Path, "/r1") && m.rules[rule.Path] != rule.Access {
				t.Fatalf("rule %+v, want %s", rule, m.rules[rule.Path])
			}
		}
	}
	if allowed < rounds {
		t.Errorf("only %d of %d cases were allowed: the cases are too narrow", allowed, rounds*60)
	}
}

// TestChange: the flag that a denial names opens it, and the one that an
// allowed operation names closes it.
func TestChange(t *testing.T) {
	r := newRand(t)
	for range rounds {
		p := profiletest.Random(r, roots)
		s := seal(t, p)
		op, o := profiletest.Case(r, roots)
		d := s.Decide(op, o)
		if op == profiles.OpRename || op == profiles.OpLink || op == profiles.OpRemove || len(d.Change) == 0 {
			continue
		}
		f, ok := flagsOf(d.Change[0])
		if !ok {
			continue
		}
		q, err := p.WithFlags(f)
		if err != nil {
			t.Fatal(err)
		}
		if again := seal(t, q).Decide(op, o); again.Allow == d.Allow && op != profiles.OpStat {
			t.Fatalf("%s %q stays %v with %q\n%s", op, o.Path, d.Allow, d.Change, p)
		}
	}
}
