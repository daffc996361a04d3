package profiles_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"lockbox/profiles"
)

func sealed(t *testing.T, text string, c profiles.Caller) *profiles.Sealed {
	t.Helper()
	s, err := profiles.Seal(load(t, text), testExpand, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var callers = []profiles.Caller{profiles.Terminal, profiles.Door, profiles.Assistant}

// TestEveryRun: nothing opens the state of lockbox, whoever asks and whatever
// the profile grants: all of the host, the place itself, or a file in it.
// K-004, K-005, K-006, L-041, L-047.
func TestEveryRun(t *testing.T) {
	closed := []string{"/srv/state", "/srv/config", "/etc/lockbox", "/var/lib/lockbox", "/run/lockbox", "/home/u/.config/lockbox", "/home/u/.local/state/lockbox", "/run/user/1000/lockbox", "/sys/fs/bpf", "/sys/fs/cgroup"}
	for _, dir := range closed {
		for _, text := range []string{file("/", "rwx"), file(dir, "rwx"), file("/", "rwx") + file(dir+"/vault/x", "rwx"), file(dir+"/vault", "rw") + "[net]\nunix = []", ""} {
			for _, c := range callers {
				s := sealed(t, text, c)
				for _, p := range []string{dir, dir + "/vault/x", dir + "/vault/x/y"} {
					for _, op := range []profiles.Op{profiles.OpRead, profiles.OpWrite, profiles.OpExec, profiles.OpCreate, profiles.OpRemove, profiles.OpMetadata, profiles.OpUnix} {
						if d := s.Decide(op, profiles.Object{Path: p}); d.Allow || !strings.HasPrefix(d.Rule, "invariant:") {
							t.Errorf("%q: %s %s: %+v", text, op, p, d)
						}
					}
					for _, o := range []profiles.Object{{Path: p, To: "/opt/x"}, {Path: "/opt/x", To: p}} {
						if s.Decide(profiles.OpRename, o).Allow || s.Decide(profiles.OpLink, o).Allow {
							t.Errorf("%q: rename or link %+v", text, o)
						}
					}
				}
			}
		}
	}
	s := sealed(t, file("/", "rwx"), profiles.Terminal)
	if d := s.Decide(profiles.OpWrite, profiles.Object{Path: "/srv/other"}); !d.Allow {
		t.Errorf("control: %+v", d)
	}
	if s = sealed(t, file("/srv/state/x", "r")+"[net]\nunix = ['/srv/state/s', '/run/x']", profiles.Terminal); len(s.Notes()) != 2 || !slices.Equal(s.Profile().Net.Unix, []string{"/run/x"}) {
		t.Errorf("notes %q, unix %q", s.Notes(), s.Profile().Net.Unix)
	}
}

// TestDoorRun: L-041, L-044, L-045, L-046.
func TestDoorRun(t *testing.T) {
	read := func(s *profiles.Sealed, p string) bool {
		return s.Decide(profiles.OpRead, profiles.Object{Path: p}).Allow
	}
	for _, dir := range []string{"/home/u/.ssh", "/home/u/.gnupg", "/home/u/.aws", "/home/u/.kube", "/home/u/.docker", "/home/u/.config/gcloud", "/home/u/.local/share/keyrings", "/home/u/.config/systemd", "/home/u/.config/autostart"} {
		wide, named := file("~", "rw"), file("~", "rw")+file(dir+"/known", "r")
		for _, c := range callers {
			if s := sealed(t, wide, c); read(s, dir) || read(s, dir+"/known") || !read(s, "/home/u/x") {
				t.Errorf("%s is open under ~ for %d", dir, c)
			}
			s := sealed(t, named, c)
			if got := read(s, dir+"/known"); got != (c == profiles.Terminal) {
				t.Errorf("%s/known named, caller %d: %v", dir, c, got)
			}
			if read(s, dir+"/other") || read(s, dir) || s.Decide(profiles.OpWrite, profiles.Object{Path: dir + "/known"}).Allow {
				t.Errorf("%s: more than the named file is open for %d", dir, c)
			}
			if (c != profiles.Terminal) != (len(s.Notes()) > 0) {
				t.Errorf("notes for %d: %q", c, s.Notes())
			}
		}
		if _, err := profiles.Seal(load(t, file(dir, "r")), testExpand, profiles.Terminal); err == nil || !strings.Contains(err.Error(), "one by one") {
			t.Errorf("%s as a whole: %v", dir, err)
		}
	}
	// A file is named by itself, and gets what the name asks, not what is around it.
	for _, c := range callers {
		s := sealed(t, file("~", "rw")+file("~/.netrc", "r"), c)
		if got := read(s, "/home/u/.netrc"); got != (c == profiles.Terminal) || s.Decide(profiles.OpWrite, profiles.Object{Path: "/home/u/.netrc"}).Allow {
			t.Errorf(".netrc for %d: %v", c, got)
		}
		s = sealed(t, "net.unix = ['/run/user/1000/gnupg/S.gpg-agent', '/run/docker.sock', '/run/x']", c)
		want := 3
		if c != profiles.Terminal {
			want = 1
		}
		if got := s.Profile().Net.Unix; len(got) != want {
			t.Errorf("sockets for %d: %q", c, got)
		}
	}
}

// TestSettings: L-042, L-043.
func TestSettings(t *testing.T) {
	for _, text := range []string{file("~", "rwx"), file("~/.claude", "rw"), file("~/.claude/settings.json", "rw") + file("~/.claude/hooks", "rwx") + file("~/.claude/hooks/x", "rw")} {
		for _, c := range callers {
			s := sealed(t, text, c)
			for _, p := range []string{"/home/u/.claude/settings.json", "/home/u/.claude/hooks", "/home/u/.claude/hooks/x"} {
				for _, op := range []profiles.Op{profiles.OpWrite, profiles.OpCreate, profiles.OpRemove, profiles.OpMetadata, profiles.OpExec} {
					if d := s.Decide(op, profiles.Object{Path: p}); d.Allow {
						t.Errorf("%q for %d: %s %s: %+v", text, c, op, p, d)
					}
				}
				if d := s.Decide(profiles.OpRead, profiles.Object{Path: p}); d.Allow != (c != profiles.Door) {
					t.Errorf("%q for %d: read %s: %+v", text, c, p, d)
				}
			}
		}
	}
}

// TestPins: soundness 10. Each directory from the writable root down to a
// carve-out is pinned, also where a rule lies between.
func TestPins(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"between", file("/w", "rw") + file("/w/a/.git/hooks", "r"), []string{"/w/a", "/w/a/.git"}},
		{"directly below", file("/w", "rw") + file("/w/hooks", "r"), nil},
		{"nothing writable", file("/w", "r") + file("/w/a/b", "none"), nil},
		{"only deeper grants", file("/w", "rw") + file("/w/a/b", "rwx"), nil},
		{"a read-only rule between", file("/w", "rw") + file("/w/a/b", "r") + file("/w/a/b/c/d", "none"), []string{"/w/a"}},
		{"a wider rule between", file("/w", "rw") + file("/w/a/b", "rwx") + file("/w/a/b/c/d", "none"), []string{"/w/a", "/w/a/b/c"}},
		{"two below one", file("/w", "rw") + file("/w/a/b/x", "r") + file("/w/a/b/y", "r"), []string{"/w/a", "/w/a/b"}},
		{"the root", file("/", "rw") + file("/p/q/r", "r"), []string{"/p", "/p/q"}},
	} {
		s := sealed(t, tt.text, profiles.Terminal)
		var got []string
		for _, p := range s.Pins() {
			if strings.HasPrefix(p, "/w") || strings.HasPrefix(p, "/p") {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		for _, p := range got {
			for _, op := range []profiles.Op{profiles.OpRemove, profiles.OpRename} {
				if d := s.Decide(op, profiles.Object{Path: p, To: "/w/new"}); d.Allow {
					t.Errorf("%s: %s of the pin %s: %+v", tt.name, op, p, d)
				}
			}
		}
	}
}

// TestMounts: soundness 13.
func TestMounts(t *testing.T) {
	s := sealed(t, file("/w", "rw")+file("/v", "rw")+file("/w/a/hooks", "r"), profiles.Terminal)
	for _, tt := range []struct {
		op       profiles.Op
		from, to string
		want     bool
	}{
		{profiles.OpRename, "/w/x", "/w/d/y", true}, {profiles.OpLink, "/w/x", "/w/y", true},
		{profiles.OpRename, "/w/x", "/v/x", false}, {profiles.OpLink, "/w/x", "/v/x", false},
		{profiles.OpRename, "/w/x", "/w/a/x", false}, // the pin is a mount
		{profiles.OpRename, "/w/a/x", "/w/a/y", true},
		{profiles.OpRename, "/w", "/w2", false}, {profiles.OpRemove, "/w", "", false}, {profiles.OpRemove, "/w/a/hooks", "", false}, {profiles.OpRemove, "/w/x", "", true},
		{profiles.OpRename, "/tmp/x", "/tmp/y", true}, {profiles.OpRename, "/tmp/x", "/w/y", false}, {profiles.OpRename, "/tmp/x", "/var/tmp/y", false},
		{profiles.OpRename, "/w/x", "rel", false}, {profiles.OpRename, "/w/x", "", false},
	} {
		if d := s.Decide(tt.op, profiles.Object{Path: tt.from, To: tt.to}); d.Allow != tt.want {
			t.Errorf("%s %s → %s: %+v", tt.op, tt.from, tt.to, d)
		}
	}
}

func TestBuiltins(t *testing.T) {
	const r, w, x = profiles.OpRead, profiles.OpWrite, profiles.OpExec
	s := sealed(t, file("/", "r")+file("/tmp/ws", "rw")+file("/tmp/closed", "none"), profiles.Terminal)
	tty := sealed(t, "process.tty = true", profiles.Terminal)
	for _, tt := range []struct {
		s    *profiles.Sealed
		op   profiles.Op
		path string
		want bool
	}{
		{s, w, "/tmp/x", true}, {s, x, "/tmp/x", true}, {s, w, "/tmp", true}, {s, w, "/tmpx", false}, {s, w, "/dev/shm/x", true}, {s, w, "/var/tmp/x", true},
		{s, w, "/tmp/ws/f", true}, {s, x, "/tmp/ws/f", false}, // a place of the host inside the private one
		{s, r, "/dev/null", true}, {s, w, "/dev/null", true}, {s, x, "/dev/null", false}, {s, profiles.OpMetadata, "/dev/null", false}, {s, profiles.OpRemove, "/dev/null", false},
		{s, r, "/proc/self/status", true}, {s, w, "/proc/self/oom_score_adj", false}, {s, x, "/proc/self/exe", false},
		{s, w, "/dev/tty", false}, {tty, w, "/dev/tty", true}, {tty, w, "/dev/pts/3", true}, {tty, w, "/dev/ptmx", false},
		{tty, r, "/dev/mem", false}, {tty, profiles.OpStat, "/dev", true}, {tty, profiles.OpStat, "/", true}, {tty, profiles.OpStat, "/etc", false},
	} {
		if d := tt.s.Decide(tt.op, profiles.Object{Path: tt.path}); d.Allow != tt.want {
			t.Errorf("%s %s: %+v", tt.op, tt.path, d)
		}
	}
	var got []string
	for _, rule := range s.Rules() {
		if strings.HasPrefix(rule.Path, "/tmp") {
			got = append(got, rule.Path)
		}
	}
	if !slices.Equal(got, []string{"/tmp/ws"}) {
		t.Errorf("rules in /tmp: %q", got)
	}
	s = sealed(t, file("/tmp", "none")+file("/proc/self", "r")+file("/dev/null", "rw"), profiles.Terminal)
	if len(s.Notes()) != 3 || !s.Decide(w, profiles.Object{Path: "/tmp/x"}).Allow {
		t.Errorf("notes %q", s.Notes())
	}
	for _, bad := range []string{file("/proc/cpuinfo", "none"), file("/proc", "none"), file("/dev/null", "none"), file("/", "rw") + file("/dev/zero", "r")} {
		if s, err := profiles.Seal(load(t, bad), testExpand, profiles.Terminal); err == nil {
			t.Errorf("%q: closed what every run has: %v", bad, s.Rules())
		}
	}
}

func TestZeroDenies(t *testing.T) {
	s, err := profiles.Seal(&profiles.Profile{}, profiles.Expand{}, profiles.Assistant)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []profiles.Object{{}, {Path: "/etc/passwd"}, {Path: "rel"}, {Path: "/a\x00"}, {Path: "/" + strings.Repeat("a", 5000)}, {Host: "example.org", Port: 443}, {Addr: netip.MustParseAddr("8.8.8.8"), Port: 443}} {
		for op := profiles.OpRead; op <= profiles.OpListen+1; op++ {
			local := op == profiles.OpBind || op == profiles.OpListen // nothing reaches the own namespace
			if d := s.Decide(op, o); d.Allow && !local || d.Rule == "" {
				t.Errorf("%s %.40v: %+v", op, o, d)
			}
		}
	}
}

func TestDecideNet(t *testing.T) {
	direct := sealed(t, "[net]\nmode = 'direct'\nallow = ['0.0.0.0/0:443', '10.1.2.0/24', 'git.example.org:443', 'intra.example.org', '127.0.0.1:5432', '8.8.8.8:53/udp', '8.8.8.0/24:99/udp']\nlisten = [3000]", profiles.Terminal)
	direct = direct.WithHosts(map[string][]netip.Addr{"git.example.org": {netip.MustParseAddr("2a00::7")}, "intra.example.org": {netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("169.254.169.254")}, "other.example.org": {netip.MustParseAddr("2a00::9")}})
	none := sealed(t, "", profiles.Terminal)
	gate := sealed(t, "[net]\nmode = 'gate'\nallow = ['git.example.org:443']", profiles.Terminal)
	open := sealed(t, "net.mode = 'gate'", profiles.Terminal)
	ip := func(s string, port uint16) profiles.Object {
		return profiles.Object{Addr: netip.MustParseAddr(s), Port: port}
	}
	udp := func(o profiles.Object) profiles.Object { o.Proto = "udp"; return o }
	own := func(o profiles.Object) profiles.Object { o.Own = true; return o }
	for _, tt := range []struct {
		name        string
		s           *profiles.Sealed
		op          profiles.Op
		o           profiles.Object
		allow, gate bool
		rule        string
	}{
		{"default route", direct, profiles.OpConnect, ip("1.1.1.1", 443), true, false, "net.allow:0.0.0.0/0:443"},
		{"its neighbour port", direct, profiles.OpConnect, ip("1.1.1.1", 444), false, false, "default"},
		{"does not open private ranges", direct, profiles.OpConnect, ip("10.9.9.9", 443), false, false, "builtin:private"},
		{"named private range", direct, profiles.OpConnect, ip("10.1.2.3", 22), true, false, "net.allow:10.1.2.0/24"},
		{"mapped form of it", direct, profiles.OpConnect, ip("::ffff:10.1.2.3", 22), true, false, "net.allow:10.1.2.0/24"},
		{"metadata", direct, profiles.OpConnect, ip("169.254.169.254", 443), false, false, "builtin:metadata"},
		{"metadata in NAT64", direct, profiles.OpConnect, ip("64:ff9b::a9fe:a9fe", 443), false, false, "builtin:nat64"},
		{"pinned host by address", direct, profiles.OpConnect, ip("2a00::7", 443), true, false, "net.allow:git.example.org:443"},
		{"pinned address that no entry names", direct, profiles.OpConnect, ip("2a00::9", 443), false, false, "default"},
		{"host by name", direct, profiles.OpConnect, profiles.Object{Host: "Git.Example.org.", Port: 443}, true, false, "net.allow:git.example.org:443"},
		{"address as a name", direct, profiles.OpConnect, profiles.Object{Host: "[2a00::7]", Port: 443}, true, false, "net.allow:git.example.org:443"},
		{"other host", direct, profiles.OpConnect, profiles.Object{Host: "evil.example", Port: 443}, false, false, "default"},
		{"udp is named apart", direct, profiles.OpSend, udp(ip("1.1.1.1", 443)), false, false, "default"},
		{"udp named", direct, profiles.OpSend, udp(ip("8.8.8.8", 99)), true, false, "net.allow:8.8.8.0/24:99/udp"},
		{"DNS stays shut", direct, profiles.OpSend, udp(ip("8.8.8.8", 53)), false, false, "builtin:dns"},
		{"loopback of others", direct, profiles.OpConnect, ip("127.0.0.1", 5432), false, false, "builtin:loopback"},
		{"own loopback", direct, profiles.OpConnect, own(ip("127.0.0.1", 1)), true, false, "builtin:loopback"},
		{"mapped loopback", direct, profiles.OpConnect, ip("::ffff:127.0.0.1", 1), false, false, "builtin:loopback"},
		{"listen", direct, profiles.OpListen, ip("0.0.0.0", 3000), true, false, "net.listen"},
		{"listen beside", direct, profiles.OpListen, ip("0.0.0.0", 3001), false, false, "default"},
		{"protocol", direct, profiles.OpConnect, profiles.Object{Addr: netip.MustParseAddr("1.1.1.1"), Port: 443, Proto: "sctp"}, false, false, "builtin:protocol"},
		{"none", none, profiles.OpConnect, ip("1.1.1.1", 443), false, false, "net.mode"},
		{"none, loopback", none, profiles.OpConnect, ip("127.0.0.1", 1), true, false, "builtin:loopback"},
		{"none, bind", none, profiles.OpBind, ip("127.0.0.1", 1), true, false, "net.mode"},
		{"gate", gate, profiles.OpConnect, profiles.Object{Host: "git.example.org", Port: 443}, false, true, "gate"},
		{"gate, not in the list", gate, profiles.OpConnect, profiles.Object{Host: "x.example.org", Port: 443}, false, false, "default"},
		{"gate, no list", open, profiles.OpConnect, profiles.Object{Host: "x.example.org", Port: 443}, false, true, "gate"},
	} {
		d := tt.s.Decide(tt.op, tt.o)
		if d.Allow != tt.allow || d.Gate != tt.gate || d.Rule != tt.rule {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
	egress := direct.Egress()
	for _, e := range egress {
		if e.Prefix.Contains(netip.MustParseAddr("10.9.9.9")) && e.Prefix.Bits() > 0 || e.Prefix == netip.MustParsePrefix("169.254.169.254/32") {
			t.Errorf("a host's name opens %v", e)
		}
	}
	if !slices.Contains(egress, profiles.EgressRule{Prefix: netip.MustParsePrefix("2a00::7/128"), Port: 443, Pinned: true}) || gate.Egress() != nil {
		t.Errorf("egress %v", egress)
	}
}
