package needs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// fake records how a test ended.
type fake struct {
	testing.TB
	fatal, skip string
}

func (f *fake) Helper()      {}
func (f *fake) Name() string { return "TestFake" }
func (f *fake) Fatalf(s string, a ...any) {
	f.fatal = fmt.Sprintf(s, a...)
	runtime.Goexit()
}
func (f *fake) Skipf(s string, a ...any) {
	f.skip = fmt.Sprintf(s, a...)
	runtime.Goexit()
}

func end(fn func(t testing.TB)) *fake {
	f := &fake{}
	done := make(chan struct{})
	go func() { defer close(done); fn(f) }()
	<-done
	return f
}

// A missing need fails; a skip takes a variable set by hand, and CI refuses it.
func TestMissing(t *testing.T) {
	gone := func(t testing.TB) { Command(t, "no-such-program-here") }
	for _, c := range []struct{ skip, ci, fatal, skipped string }{
		{"", "", "apt-get install no-such-program-here", ""},
		{"0", "", "hint:", ""},
		{"1", "", "", "SKIPPED"},
		{"1", "true", "not allowed", ""},
	} {
		t.Setenv(skipVar, c.skip)
		t.Setenv("CI", c.ci)
		f := end(gone)
		if !strings.Contains(f.fatal, c.fatal) || !strings.Contains(f.skip, c.skipped) || (f.fatal == "") != (c.fatal == "") || (f.skip == "") != (c.skipped == "") {
			t.Errorf("%s=%q CI=%q: fatal %q, skip %q", skipVar, c.skip, c.ci, f.fatal, f.skip)
		}
	}
}

func TestCommandFound(t *testing.T) {
	if p := Command(t, "sh"); !strings.HasSuffix(p, "/sh") {
		t.Errorf("sh is %q", p)
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		release      string
		major, minor int
		want, bad    bool
	}{
		{"6.1.0-57-cloud-amd64", 6, 1, true, false},
		{"6.1.0-57-cloud-amd64", 6, 2, false, false},
		{"6.12.117+deb12-cloud-amd64", 6, 7, true, false}, // 12 > 7 as a number
		{"7.0", 6, 7, true, false},
		{"5.19.1", 6, 0, false, false},
		{"strange", 6, 0, false, true},
	} {
		got, err := atLeast(c.release, c.major, c.minor)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("atLeast(%q, %d, %d) = %v, %v", c.release, c.major, c.minor, got, err)
		}
	}
}
