package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
)

func host(base *Host, changes ...func(*Host)) *Host {
	for _, c := range changes {
		c(base)
	}
	return base
}

func abi(n int) func(*Host) { return func(h *Host) { h.LandlockABI = n } }
func noUserNS(h *Host)      { h.UserNS = "user.max_user_namespaces is 0" }

func weaker(names ...string) Options {
	o := Options{Weaker: map[string]bool{}}
	for _, n := range names {
		o.Weaker[n] = true
	}
	return o
}

// K-018: a missing primitive refuses the run and says what helps; nothing is
// given up that was not named.
func TestRefusals(t *testing.T) {
	limits := func(l profiles.Limits) *profiles.Profile { p := grants("rx /usr"); p.Limits = l; return p }
	net := func(m profiles.Mode) *profiles.Profile { p := grants("rx /usr"); p.Net.Mode = m; return p }
	all := []string{"metadata", "unix", "processes", "tmp", "carve-outs"}
	for _, c := range []struct {
		name    string
		host    *Host
		profile *profiles.Profile
		options Options
		feature string // of the *UnsupportedError
		hint    string
	}{
		{"nothing is known of the host", &Host{FS: someHost()}, grants(), Options{}, "files", "lsm=landlock"},
		{"no Landlock", host(fakeRoot(), abi(0)), grants(), Options{}, "files", "lsm=landlock"},
		{"no seccomp", host(fakeRoot(), func(h *Host) { h.Seccomp = false }), grants(), Options{}, "syscalls", "CONFIG_SECCOMP_FILTER"},
		{"no mount_setattr", host(fakeRoot(), func(h *Host) { h.Major, h.Minor = 5, 11 }), grants(), Options{}, "metadata", "newer kernel"},
		{"no user namespace", host(fakeUser(), noUserNS), grants(), Options{}, "metadata", "--weaker metadata"},
		{"no user namespace, ABI 9", host(fakeUser(), noUserNS, abi(9)), grants(), Options{}, "metadata", "lockbox doctor"},
		{"all but one", host(fakeUser(), noUserNS), grants(), weaker(all[:4]...), "carve-outs", "--weaker carve-outs"},
		{"all but unix", host(fakeUser(), noUserNS), grants(), weaker("metadata", "processes", "tmp", "carve-outs"), "unix", "--weaker unix"},
		{"direct as a user", fakeUser(), net(profiles.NetDirect), Options{}, "net direct", "as root"},
		{"gate", fakeRoot(), net(profiles.NetGate), Options{}, "net gate", "--net none"},
		{"cpu without a cgroup", fakeUser(), limits(profiles.Limits{CPU: 1}), Options{}, "cpu", "Delegate=yes"},
		{"pids without any mechanism", host(fakeUser(), noUserNS), limits(profiles.Limits{Pids: 5}), weaker(all...), "pids", "--weaker pids"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := compileFake(c.profile, profiles.Expand{}, c.host, c.options)
			var u *UnsupportedError
			if !errors.As(err, &u) || !errors.Is(err, errors.ErrUnsupported) {
				t.Fatalf("%v, want an UnsupportedError", err)
			}
			if u.Feature != c.feature || !strings.Contains(u.Hint, c.hint) || u.Need == "" || u.Have == "" {
				t.Errorf("%+v, want feature %q, a hint with %q, need and have", *u, c.feature, c.hint)
			}
		})
	}
}

// K-018: every combination of what may be given up without user namespaces: only
// the full list starts, and then the plan names each.
func TestEachWeakerCombination(t *testing.T) {
	names := []string{"metadata", "unix", "processes", "tmp", "carve-outs"}
	for _, a := range []int{1, 6, 9} {
		for set := range 1 << len(names) {
			var given []string
			for i, n := range names {
				if set&(1<<i) != 0 {
					given = append(given, n)
				}
			}
			p, err := compileFake(grants("rx /usr"), profiles.Expand{}, host(fakeUser(), noUserNS, abi(a)), weaker(given...))
			full := set == 1<<len(names)-1 || a >= 9 && set|2 == 1<<len(names)-1
			if (err == nil) != full {
				t.Errorf("ABI %d, --weaker %v: %v", a, given, err)
			}
			if err != nil {
				continue
			}
			want := len(names)
			if a >= 9 {
				want-- // Landlock keeps the sockets
			}
			if len(p.Weaker) != want || p.mounts || p.namespaces != 0 {
				t.Errorf("ABI %d, --weaker %v: gave up %v, namespaces %#x", a, given, p.Weaker, p.namespaces)
			}
		}
	}
}

// What a host can do is never given up because somebody allows it.
func TestWeakerIsNotAsked(t *testing.T) {
	p, err := compileFake(grants("rx /usr"), profiles.Expand{}, fakeUser(), weaker(Features...))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Weaker) != 0 || !p.mounts || !p.pidNS {
		t.Errorf("gave up %v", p.Weaker)
	}
}

// K-004..K-006, K-023, K-024: promise → mechanism, for each ABI that adds one.
func TestMechanisms(t *testing.T) {
	const ns = unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	direct := func(p *profiles.Profile) { p.Net.Mode = profiles.NetDirect }
	wall := func(p *profiles.Profile) { p.Limits.Wall = time.Second }
	memory := func(p *profiles.Profile) { p.Limits.Memory = 1 << 30; p.Limits.Pids = 10 }
	none := func(*profiles.Profile) {}
	for _, c := range []struct {
		name    string
		host    *Host
		change  func(*profiles.Profile)
		options Options
		inPlace bool
		spaces  uintptr
		by      map[string]string // layer → part of its mechanism
	}{
		{"root, ABI 9", host(fakeRoot(), abi(9)), none, Options{}, true, ns | unix.CLONE_NEWNET, map[string]string{"files": "landlock:9+mounts", "unix": "resolve_unix", "processes": "hidepid", "egress": "empty network namespace"}},
		{"root, ABI 7", host(fakeRoot(), abi(7)), none, Options{}, true, ns | unix.CLONE_NEWNET, map[string]string{"unix": "allow-list root", "processes": "landlock:7 scopes"}},
		{"root, ABI 6", fakeRoot(), none, Options{}, true, ns | unix.CLONE_NEWNET, map[string]string{"files": "landlock:6+mounts"}},
		{"root, ABI 5: no scopes", host(fakeRoot(), abi(5)), none, Options{}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"processes": "pid namespace"}},
		{"root, ABI 3", host(fakeRoot(), abi(3)), none, Options{}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"files": "landlock:3+mounts", "processes": "pid namespace"}},
		{"root, ABI 2", host(fakeRoot(), abi(2)), none, Options{}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"files": "landlock:2+mounts"}},
		{"root, ABI 1", host(fakeRoot(), abi(1)), none, Options{}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"files": "landlock:1+mounts"}},
		{"root, attended", fakeRoot(), none, Options{Attended: true}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"processes": "init, landlock:6 scopes"}},
		{"root, a wall limit", fakeRoot(), wall, Options{}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"limits": "supervisor"}},
		{"root, limits", fakeRoot(), memory, Options{}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"limits": "cgroup"}},
		{"root, direct", fakeRoot(), direct, Options{}, false, ns | unix.CLONE_NEWPID, map[string]string{"egress": "cgroup programs"}},
		{"root, leads its group at a terminal", host(fakeRoot(), func(h *Host) { h.TTY, h.Leader = true, true }), none, Options{}, false, ns | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"processes": "pid namespace"}},
		{"root, leads its group, tty asked", host(fakeRoot(), func(h *Host) { h.TTY, h.Leader = true, true }), none, Options{TTY: true}, true, ns | unix.CLONE_NEWNET, nil},
		{"user, ABI 9", host(fakeUser(), abi(9)), none, Options{}, false, ns | unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"unix": "resolve_unix", "processes": "pid namespace"}},
		{"user, ABI 2", host(fakeUser(), abi(2)), none, Options{}, false, ns | unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"unix": "allow-list root", "processes": "pid namespace"}},
		{"user, limits", fakeUser(), memory, Options{}, false, ns | unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"limits": "RLIMIT_DATA, RLIMIT_NPROC"}},
		{"user, limits, delegated", host(fakeUser(), func(h *Host) { h.Delegated = true }), memory, Options{}, false, ns | unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID, map[string]string{"limits": "cgroup"}},
		{"no namespaces, ABI 6", host(fakeUser(), noUserNS), none, weaker("metadata", "unix", "processes", "tmp", "carve-outs"), false, 0, map[string]string{"egress": "no inet family", "files": "landlock:6", "processes": "landlock:6"}},
		{"no namespaces, ABI 9", host(fakeUser(), noUserNS, abi(9)), none, weaker("metadata", "processes", "tmp", "carve-outs"), false, 0, map[string]string{"unix": "resolve_unix"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			prof := grants("rx /usr")
			c.change(prof)
			p, err := compileFake(prof, profiles.Expand{}, c.host, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if p.InPlace != c.inPlace {
				t.Errorf("in place: %v, want %v", p.InPlace, c.inPlace)
			}
			if p.namespaces != c.spaces {
				t.Errorf("namespaces %#x (%s), want %#x", p.namespaces, p.namespaceNames(), c.spaces)
			}
			for l, by := range c.by {
				for _, part := range strings.Split(by, ", ") {
					if got := p.layer(l).By; !strings.Contains(got, part) {
						t.Errorf("layer %s is kept by %q, want %q in it", l, got, part)
					}
				}
			}
			if strings.Contains(p.layer("processes").By, "scopes") && c.host.LandlockABI < 6 {
				t.Errorf("ABI %d has no scopes, and the plan says %q", c.host.LandlockABI, p.layer("processes").By)
			}
		})
	}
}

// Without a memory cgroup the limit is per process, and the receipt says so
// (soundness: user tier, RLIMIT_DATA, never RLIMIT_AS).
func TestPerProcessMemoryIsLabelled(t *testing.T) {
	prof := grants("rx /usr")
	prof.Limits.Memory = 1 << 30
	p, err := compileFake(prof, profiles.Expand{}, fakeUser(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := p.layer("limits").Note; !strings.Contains(n, "per process") {
		t.Errorf("note %q", n)
	}
}

// The rights that a ruleset handles and gives, by ABI: the neighbours of each
// version that added one (Landlock's documentation, "previous limitations").
func TestLandlockRights(t *testing.T) {
	const refer, truncate, ioctl, resolve = 1 << 13, 1 << 14, 1 << 15, 1 << 16
	for _, c := range []struct {
		abi  int
		have uint64
		not  uint64
		sc   uint64
	}{
		{1, 0, refer | truncate | ioctl | resolve, 0},
		{2, refer, truncate | ioctl | resolve, 0},
		{3, refer | truncate, ioctl | resolve, 0},
		{4, refer | truncate, ioctl | resolve, 0},
		{5, refer | truncate | ioctl, resolve, 0},
		{6, refer | truncate | ioctl, resolve, 3},
		{8, refer | truncate | ioctl, resolve, 3},
		{9, refer | truncate | ioctl | resolve, 0, 3},
	} {
		h := handledFS(c.abi)
		if h&c.have != c.have || h&c.not != 0 || h&(1<<13-1) != 1<<13-1 || scopes(c.abi) != c.sc {
			t.Errorf("ABI %d: handled %s, scopes %d", c.abi, rightNames(h), scopes(c.abi))
		}
		for _, a := range []profiles.Access{0, 1, 2, 3, 5, 7} {
			for _, dir := range []bool{true, false} {
				r := rights(a, dir, c.abi)
				if r&^h != 0 {
					t.Errorf("ABI %d %s: rights %s beyond what is handled", c.abi, a, rightNames(r))
				}
				if r&(1<<6|1<<11) != 0 {
					t.Errorf("ABI %d %s: device nodes granted", c.abi, a)
				}
				if a == 0 && r != 0 || !a.Has(profiles.Write) && r&(1<<1|1<<4|1<<5|1<<7|1<<8|truncate|refer) != 0 || !a.Has(profiles.Exec) && r&1 != 0 || !a.Has(profiles.Read) && r&(1<<2|1<<3) != 0 {
					t.Errorf("ABI %d %s: rights %s", c.abi, a, rightNames(r))
				}
			}
		}
	}
}

// Rules that no host can keep are errors that name the rule and a way out.
func TestCannotEnforce(t *testing.T) {
	for _, c := range []struct {
		name, why string
		rules     []string
	}{
		{"absent path", "does not exist|no such file|file does not exist", []string{"r /nowhere"}},
		{"absent carve-out below a writable tree", "could create it", []string{"rw /home/u/src", "-none /home/u/src/later"}},
		{"file closed in a writable tree", "single file", []string{"rw /home/u", "-none /home/u/notes"}},
		{"write without read in a readable writable tree", "reading cannot be taken away", []string{"rw /home/u", "-w /home/u/src"}},
		{"own /dev", "the run has its own", []string{"rw /dev"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := compileFake(grants(c.rules...), profiles.Expand{}, fakeUser(), Options{})
			var e *CannotEnforceError
			if !errors.As(err, &e) {
				t.Fatalf("%v, want a CannotEnforceError", err)
			}
			ok := false
			for _, w := range strings.Split(c.why, "|") {
				ok = ok || strings.Contains(e.Why, w)
			}
			if !ok || e.Hint == "" || e.Rule == "" || e.Path == "" {
				t.Errorf("%+v, want why %q, a rule, a path and a hint", *e, c.why)
			}
		})
	}
	for _, rules := range [][]string{
		{"r? /nowhere"},                                // optional: does not hold
		{"r /home/u", "-none /home/u/later"},           // closed by enumeration when it appears
		{"rw /home/u/src", "-none? /home/u/src/later"}, // watched
		{"r /home/u", "-none /home/u/notes"},           // a file in a readable tree
		{"rw /home/u", "-none /home/u/.ssh"},           // a directory in a writable tree
	} {
		if _, err := compileFake(grants(rules...), profiles.Expand{}, fakeUser(), Options{}); err != nil {
			t.Errorf("%v: %v, must compile", rules, err)
		}
	}
}

// What enumeration would cost too many rules is covered by a mount and watched,
// or refused.
func TestEnumerationHasALimit(t *testing.T) {
	h := fakeUser()
	f := h.FS.(fakeFS)
	for i := range maxEntries + 1 {
		f[fmt.Sprintf("/big/f%05d", i)] = "f"
	}
	f["/big/dir/secret"] = "f"
	f["/big/file"] = "f"
	p, err := compileFake(grants("r /big", "-none /big/dir"), profiles.Expand{}, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Watches) == 0 || len(p.Notes) == 0 || len(p.layout.entries) != 0 || p.InPlace {
		t.Errorf("watches %v, notes %v, %d entries", p.Watches, p.Notes, len(p.layout.entries))
	}
	var e *CannotEnforceError
	if _, err := compileFake(grants("r /big", "-none /big/file"), profiles.Expand{}, h, Options{}); !errors.As(err, &e) {
		t.Errorf("a file in a directory of %d entries: %v", maxEntries, err)
	}
}
