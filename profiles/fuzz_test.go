package profiles_test

import (
	"testing"

	"lockbox/profiles"
)

// FuzzParse: no panic, a value exactly where there is no error, and what was
// loaded prints to something that reads back as the same.
func FuzzParse(f *testing.F) {
	for _, n := range profiles.PresetNames() {
		d, _ := profiles.Preset(n)
		if p, err := profiles.Load([]string{n}, func(string) (*profiles.Document, error) { c := *d; c.Extends = nil; return &c, nil }, testExpand); err == nil {
			f.Add([]byte(p.String()))
		}
	}
	f.Add([]byte("version=1\nfile=[{path='~/a',access='rw'},{path='/',access='none',carve=true}]\nnet={mode='direct',allow=['10.0.0.0/8:1/udp']}"))
	f.Add([]byte("version=1\n[[file]]\npath='$TMPDIR/../x'\naccess='r'\n[file.x]\n"))
	f.Add([]byte("version=1\nenv.set.a='\\\"'\n[process]\nsyscalls=['default','perf']\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := profiles.Parse("f", data)
		if (d == nil) != (err != nil) {
			t.Fatalf("value %v and error %v", d, err)
		}
		if err != nil {
			return
		}
		d.Extends = nil
		p, err := profiles.Load([]string{"f"}, func(string) (*profiles.Document, error) { return d, nil }, testExpand)
		if (p == nil) != (err != nil) {
			t.Fatalf("value %v and error %v", p, err)
		}
		if err != nil {
			return
		}
		if q := reparse(t, p); q.String() != p.String() {
			t.Fatalf("printed\n%s\nread back\n%s", p, q)
		}
		if m := profiles.Meet(p, p); m.String() != p.String() {
			t.Fatalf("Meet with itself\n%s\n%s", p, m)
		}
		if _, err := profiles.Seal(p, testExpand, profiles.Door); err != nil && err.Error() == "" {
			t.Fatal("an empty error")
		}
	})
}

func FuzzNetEntry(f *testing.F) {
	for _, s := range []string{"example.org:443", "10.0.0.0/8:1/udp", "[2001:db8::]/32:443", "[::ffff:1.2.3.4]", "127.1", "[", "]:", "a:b:c", "1/2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := profiles.ParseEntry(s)
		if (e == profiles.Entry{}) != (err != nil) {
			t.Fatalf("%+v and %v", e, err)
		}
		if err != nil {
			return
		}
		again, err := profiles.ParseEntry(e.String())
		if err != nil || again != e {
			t.Fatalf("%q prints as %q, which is %+v, %v", s, e, again, err)
		}
	})
}
