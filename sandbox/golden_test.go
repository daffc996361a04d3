package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"lockbox/profiles"
)

var update = flag.Bool("update", false, "write the golden files anew")

// filterLen differs by architecture and is not what these files are about.
var filterLen = regexp.MustCompile(`filter of \d+ instructions`)

// K-018: profile → plan, as `lockbox run --plan` prints it. The files are read
// as code: they hold every mount, attribute and step.
func TestGoldenPlans(t *testing.T) {
	preset := func(names ...string) func() (*profiles.Profile, error) {
		return func() (*profiles.Profile, error) { return loadPreset(names...) }
	}
	plain := func(rules ...string) func() (*profiles.Profile, error) {
		return func() (*profiles.Profile, error) { return grants(rules...), nil }
	}
	with := func(change func(p *profiles.Profile), rules ...string) func() (*profiles.Profile, error) {
		return func() (*profiles.Profile, error) { p := grants(rules...); change(p); return p, nil }
	}
	for _, c := range []struct {
		name    string
		profile func() (*profiles.Profile, error)
		host    *Host
		options Options
	}{
		{"base-root-in-place", preset("base"), fakeRoot(), Options{}},
		{"base-user", preset("base"), fakeUser(), Options{}},
		{"git-user", preset("git"), fakeUser(), Options{Attended: true, TmpDir: "/home/u/.local/state/run1"}},
		{"nothing", plain(), fakeRoot(), Options{Attended: true}},
		{"carve-outs-and-pins", plain("rw /home/u/src/app", "-r /home/u/src/app/.git/hooks", "-none /home/u/src/app/secrets"), fakeUser(), Options{}},
		{"mask-with-entries", plain("r /home/u", "-none /home/u/src", "r /home/u/src/app/main.go"), fakeUser(), Options{}},
		{"enumeration", plain("r /home/u", "-none /home/u/.ssh", "-none /home/u/later"), fakeRoot(), Options{Attended: true}},
		{"links", plain("rx /bin", "r /etc/resolv.conf", "r /etc/localtime"), fakeUser(), Options{}},
		{"whole-root", plain("r /"), fakeRoot(), Options{Attended: true}},
		{"terminal", with(func(p *profiles.Profile) { p.Process.TTY = true }, "rx /usr"), fakeUser(), Options{TTY: true}},
		{"unix-socket", with(func(p *profiles.Profile) { p.Net.Unix = []string{"/run/agent.sock"} }, "rx /usr"), fakeRoot(), Options{Attended: true}},
		{"hosts", plain("rx /usr", "r /etc"), fakeRoot(), Options{Attended: true, Hosts: []byte("192.0.2.7 example.org\n")}},
		{"limits-user", with(func(p *profiles.Profile) {
			p.Limits = profiles.Limits{Memory: 1 << 30, Pids: 10, Files: 64, FileSize: 1 << 20}
		}, "rx /usr"), fakeUser(), Options{}},
		{"without-namespaces", plain("rx /usr", "rw /home/u/src"), func() *Host {
			h := fakeUser()
			h.UserNS = "user.max_user_namespaces is 0"
			return h
		}(), Options{Weaker: map[string]bool{"metadata": true, "unix": true, "processes": true, "tmp": true, "carve-outs": true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := c.profile()
			if err != nil {
				t.Fatal(err)
			}
			plan, err := compileFake(p, fakeExpand(), c.host, c.options)
			if err != nil {
				t.Fatal(err)
			}
			got := filterLen.ReplaceAllString(plan.String(), "filter of N instructions")
			file := filepath.Join("testdata", c.name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the plan changed; read the difference as code, then run go test ./sandbox -run TestGoldenPlans -update\n--- want\n%s--- got\n%s", want, got)
			}
		})
	}
}
