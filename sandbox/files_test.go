package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/sandbox/script"
)

var (
	closed   = errs(unix.EACCES, unix.ENOENT, unix.EROFS) // by Landlock, the allow-list root, a read-only mount
	readOnly = errs(unix.EROFS, unix.EACCES)
	busy     = errs(unix.EBUSY)
)

// K-002, soundness 10: what `mv .git .git-old; mkdir -p .git/hooks` did to a
// carve-out that is only a mount of its own.
func TestCarveOutsCannotBePlantedAround(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "ws/.git/hooks/sample", "ws/.git/config", "ws/other/", "ws/main.go")
		ws := d + "/ws"
		check(t, &setup{profile: grants("rw "+ws, "-r "+ws+"/.git/hooks")}, []row{
			no(busy, "rename", ws+"/.git", ws+"/.git-old"),
			no(busy, "rename", ws+"/.git/hooks", ws+"/.git/hooks-old"),
			no(busy, "exchange", ws+"/.git", ws+"/other"),
			no(busy, "exchange", ws+"/.git/hooks", ws+"/.git/config"),
			no(busy, "remove", ws+"/.git/hooks"),
			no(readOnly, "create", ws+"/.git/hooks/pre-commit"),
			no(readOnly, "write", ws+"/.git/hooks/sample"),
			no(readOnly, "remove", ws+"/.git/hooks/sample"),
			no(readOnly, "chmod", ws+"/.git/hooks/sample"),
			no(errs(unix.EXDEV), "link", ws+"/.git/hooks/sample", ws+"/sample"),
			no(errs(unix.EXDEV), "rename", ws+"/.git/config", ws+"/config"), // across the pin
			yes("read", ws+"/.git/hooks/sample"),
			yes("create", ws+"/.git/index.lock"),
			yes("rename", ws+"/.git/config", ws+"/.git/config.new"),
			yes("rename", ws+"/other", ws+"/another"),
			yes("link", ws+"/main.go", ws+"/other/main.go"),
		})
	})
}

// K-004..K-006, L-041: what is closed inside something granted is covered, in
// readable and in writable trees, with and without entries that stay open.
func TestCovers(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "r/closed/key", "r/file", "r/notes", "r/part/open/x", "r/part/key", "w/closed/key", "w/other/x")
		check(t, &setup{profile: grants("r "+d+"/r", "-none "+d+"/r/closed", "-none "+d+"/r/file", "-none "+d+"/r/part", "r "+d+"/r/part/open",
			"rw "+d+"/w", "-none "+d+"/w/closed")}, []row{
			no(closed, "read", d+"/r/closed/key"),
			no(closed, "read", d+"/r/closed"),
			no(closed, "chdir", d+"/r/closed"),
			no(closed, "stat", d+"/r/closed/key"),
			no(closed, "inotify", d+"/r/closed"),
			no(closed, "read", d+"/r/file"),
			no(closed, "read", d+"/r/part/key"),
			no(closed, "read", d+"/r/part"),
			no(closed, "read", d+"/w/closed/key"),
			no(closed, "create", d+"/w/closed/new"),
			no(closed, "chmod", d+"/w/closed"),
			no(busy, "rename", d+"/w/closed", d+"/w/moved"),
			no(busy, "remove", d+"/w/closed"),
			no(busy, "exchange", d+"/w/closed", d+"/w/other"),
			no(closed, "link", d+"/w/closed/key", d+"/w/key"),
			yes("read", d+"/r/notes"),
			yes("read", d+"/r/part/open/x"),
			yes("create", d+"/w/new"),
		})
		// Through the command's own descriptors and /proc, too (L-041).
		check(t, &setup{profile: grants("r "+d+"/r", "-none "+d+"/r/closed")}, []row{
			no(closed, "read", "/proc/self/root"+d+"/r/closed/key"),
			no(closed, "read", "/proc/self/cwd"+d+"/r/closed/key"),
			no(closed, "read", d+"/r/../r/closed//key"),
		})
	})
}

// Enumeration: what is put beside a closed path later is closed until the next
// start, and the closed name itself stays closed when it appears. Its list of
// names does not: the right to list the directory above reaches into it.
func TestClosedNameThatAppearsLater(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "r/notes", "r/dir/x")
		s := &setup{profile: grants("r "+d+"/r", "-none "+d+"/r/later")}
		s.plan = func(*Plan) {
			os.Mkdir(d+"/r/later", 0o755)
			os.WriteFile(d+"/r/later/key", nil, 0o644)
			os.WriteFile(d+"/r/beside", nil, 0o644)
		}
		check(t, s, []row{
			no(closed, "read", d+"/r/later/key"),
			no(closed, "read", d+"/r/beside"),
			yes("read", d+"/r/notes"),
			yes("read", d+"/r/dir/x"),
			yes("read", d+"/r"),
		})
	})
}

// soundness 6: a symlink in a rule's path is followed only where no run can
// replace it, and a path that changes under the compiler ends the start.
func TestLinkInARulePath(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "ws/x", "target/secret", "ws/out->../target")
		var e *CannotEnforceError
		if _, _, err := compileRun(t, &setup{profile: grants("rw "+d+"/ws", "r "+d+"/ws/out")}); !errors.As(err, &e) {
			t.Errorf("a rule through a link that the run can replace: %v", err)
		}
		check(t, &setup{profile: grants("r "+d+"/ws", "r "+d+"/ws/out")}, []row{yes("read", d+"/ws/out/secret"), yes("read", d+"/target/secret")})
		for _, where := range []string{"a", "a/b"} {
			d := tree(t, "a/b/x", "elsewhere/b/x")
			_, err := start(t, &setup{profile: grants("rw " + d + "/a/b"), plan: func(*Plan) {
				if err := os.Rename(d+"/"+where, d+"/moved"); err != nil {
					t.Fatal(err)
				}
				os.Symlink(d+"/elsewhere"+strings.TrimPrefix(where, "a"), d+"/"+where)
			}})
			var se *script.StepError
			if !errors.As(err, &se) || se.Errno != unix.ELOOP || se.Step.Call != "openat2" {
				t.Errorf("%s replaced by a link after compiling: %v, want openat2: ELOOP", where, err)
			}
		}
	})
}

// L-041, L-045: an invariant behind a link is closed at both ends.
func TestInvariantsBehindLinks(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "home/notes", "home/.ssh->../vault/ssh", "vault/ssh/id", "vault/other", "home/.aws/credentials")
		ex := profiles.Expand{Home: d + "/home"}
		check(t, &setup{profile: grants("r "+d+"/home", "r "+d+"/vault"), expand: ex, caller: profiles.Terminal}, []row{
			no(append(errs(unix.ENOTDIR), closed...), "read", d+"/home/.ssh/id"), // the link is covered by a file
			no(closed, "read", d+"/vault/ssh/id"),
			no(closed, "read", d+"/vault/ssh"),
			no(closed, "read", d+"/home/.aws/credentials"),
			yes("read", d+"/home/notes"),
			yes("read", d+"/vault/other"),
		})
		// The link itself could be replaced where the home is writable; that is refused or closed, never open.
		s := &setup{profile: grants("rw "+d+"/home", "rw "+d+"/vault"), expand: ex, caller: profiles.Terminal}
		if _, _, err := compileRun(t, s); err == nil {
			check(t, s, []row{no(closed, "read", d+"/home/.ssh/id"), no(closed, "read", d+"/vault/ssh/id"), no(busy, "rename", d+"/home/.ssh", d+"/home/x")})
		} else if e := new(CannotEnforceError); !errors.As(err, &e) {
			t.Errorf("writable home with ~/.ssh as a link: %v", err)
		} else {
			t.Logf("refused: %v", e)
		}
	})
}

// L-042, L-043, L-047: state, hooks and settings of the assistant, by caller.
func TestInvariants(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "home/.claude/hooks/h", "home/.claude/settings.json", "home/.claude/settings.local.json", "home/.claude/log", "state/vault/key", "home/.codex/config.toml", "home/.codex/hooks.json",
			"home/.config/systemd/x", "home/.config/autostart/x", "home/.local/share/systemd/x", "home/.config/lockbox/c", "home/.local/state/lockbox/x")
		ex := profiles.Expand{Home: d + "/home", StateDirs: []string{d + "/state"}}
		hooks, settings := d+"/home/.claude/hooks", d+"/home/.claude/settings.json"
		check(t, &setup{profile: grants("rw "+d+"/home", "rw "+d+"/state"), expand: ex, caller: profiles.Assistant}, []row{
			no(readOnly, "write", hooks+"/h"),
			no(readOnly, "create", hooks+"/new"),
			no(readOnly, "chmod", hooks+"/h"),
			no(readOnly, "utime", hooks+"/h"),
			no(busy, "rename", hooks, hooks+"-old"),
			no(busy, "rename", d+"/home/.claude", d+"/home/.claude-old"),
			no(readOnly, "write", settings),
			no(readOnly, "chmod", settings),
			no(busy, "rename", settings, settings+".old"),
			no(busy, "remove", settings),
			no(closed, "read", d+"/state/vault/key"),
			no(closed, "write", d+"/state/vault/key"),
			no(closed, "read", d+"/home/.config/lockbox/c"),
			no(closed, "create", d+"/home/.config/autostart/x2"),
			yes("read", hooks+"/h"),
			yes("create", d+"/home/.claude/new"),
		})
	})
}

// A rule on a file gives that file and nothing beside it.
func TestRuleOnAFile(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "a/file", "a/other", "a/rw")
		check(t, &setup{profile: grants("r "+d+"/a/file", "rw "+d+"/a/rw")}, []row{
			yes("read", d+"/a/file"),
			yes("write", d+"/a/rw"),
			yes("truncate", d+"/a/rw"),
			no(readOnly, "write", d+"/a/file"),
			no(readOnly, "truncate", d+"/a/file"),
			no(closed, "read", d+"/a/other"),
			no(closed, "create", d+"/a/new"),
			no(errs(unix.EBUSY, unix.EROFS), "rename", d+"/a/rw", d+"/a/x"),
		})
	})
}

// Names that are not text: newlines, bytes that are no UTF-8, spaces, a dash.
func TestOddNames(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t)
		var rules []string
		var rows []row
		for i, name := range []string{"new\nline", "\xff\xfe\x80", " lead and trail ", "-rf", "tab\tquote\"'", strings.Repeat("é", 120)} {
			p := filepath.Join(d, name)
			if err := os.MkdirAll(p+"/closed", 0o755); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(p+"/x", nil, 0o644)
			os.WriteFile(p+"/closed/x", nil, 0o644)
			rules = append(rules, []string{"r ", "rw "}[i%2]+p, "-none "+p+"/closed")
			rows = append(rows, yes("read", p+"/x"), no(closed, "read", p+"/closed/x"))
		}
		rows = append(rows, no(closed, "read", d))
		check(t, &setup{profile: grants(rules...)}, rows)
	})
}

// A path that does not exist is an error unless the rule says that it may be
// absent; then the rule does not hold.
func TestAbsentPaths(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "x")
		var e *CannotEnforceError
		if _, err := start(t, &setup{profile: grants("r " + d + "/later")}); !errors.As(err, &e) || e.Path != d+"/later" {
			t.Errorf("%v, want a CannotEnforceError for the path", err)
		}
		check(t, &setup{profile: grants("r? "+d+"/later", "r "+d+"/x"), plan: func(*Plan) { os.WriteFile(d+"/later", nil, 0o644) }}, []row{
			yes("read", d+"/x"), no(closed, "read", d+"/later")})
	})
}

// `--ro /` shows the host but for /run, the private places and the invariants.
func TestWholeRoot(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d, tmp := tree(t, "x"), treeIn(t, "/tmp", "x")
		entries, err := os.ReadDir("/run")
		if err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			f, err := os.CreateTemp("/run", "lockbox-test-")
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
			defer os.Remove(f.Name())
			entries, _ = os.ReadDir("/run")
		}
		if len(entries) == 0 {
			t.Fatal("nothing in /run to look for")
		}
		rows := []row{
			yes("read", d+"/x"), yes("read", "/"), yes("read", "/proc/self/status"), yes("write", "/dev/null"), yes("create", "/tmp/x"),
			no(closed, "write", d+"/x"), no(closed, "create", d+"/y"), no(closed, "chmod", d+"/x"), no(closed, "read", tmp+"/x"),
		}
		for _, e := range entries {
			rows = append(rows, no(closed, "stat", "/run/"+e.Name()))
		}
		check(t, &setup{profile: grants("r /")}, rows)
		// A directory of /run or /tmp that is named comes back.
		check(t, &setup{profile: grants("r /", "rw "+tmp)}, []row{yes("create", tmp+"/y"), yes("read", tmp+"/x")})
	})
}

// soundness 14: a link into a hidden directory works, and only its target is there.
func TestLinksIntoHiddenDirectories(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "etc/passwd", "run/resolve/stub", "run/resolve/secret", "etc/resolv.conf->../run/resolve/stub", "etc/rel->passwd", "abs/")
		os.Symlink(d+"/etc/resolv.conf", d+"/abs/twice")
		for _, rules := range [][]string{
			{"r " + d + "/etc/resolv.conf"},
			{"r " + d + "/etc", "r " + d + "/etc/resolv.conf"},
			{"r " + d + "/abs/twice"},
		} {
			check(t, &setup{profile: grants(rules...)}, []row{
				yes("read", d+"/etc/resolv.conf"),
				yes("read", d+"/run/resolve/stub"),
				no(closed, "read", d+"/run/resolve/secret"),
			})
		}
	})
}

// A workspace below /tmp, which is private otherwise (soundness 14).
func TestWorkspaceBelowTmp(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		ws, other := treeIn(t, "/tmp", "main.go", "closed/x"), treeIn(t, "/tmp", "x")
		check(t, &setup{profile: grants("rw "+ws, "-none "+ws+"/closed")}, []row{
			yes("read", ws+"/main.go"), yes("create", ws+"/new"), yes("create", "/tmp/new"),
			no(closed, "read", other+"/x"), no(closed, "read", ws+"/closed/x"),
			no(busy, "rename", ws, "/tmp/elsewhere"),
		})
	})
}

// soundness 7: the private directories are bounded, empty, of the run's own, and
// gone with it.
func TestPrivateDirectories(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		host := treeIn(t, "/tmp", "x")
		name := "lockbox-left-" + filepath.Base(host)
		o := check(t, &setup{profile: grants()}, []row{
			no(closed, "read", host+"/x"),
			yes("mkdir-keep", "/tmp/"+name), yes("mkdir-keep", "/var/tmp/"+name), yes("mkdir-keep", "/dev/shm/"+name),
			yes("statfs", "/tmp"), yes("statfs", "/dev/shm"), yes("own-path-socket", "/tmp/s"), yes("mkfifo", "/tmp/f"),
		})
		for _, p := range []string{"/tmp/", "/var/tmp/", "/dev/shm/"} {
			if _, err := os.Lstat(p + name); err == nil {
				t.Errorf("%s%s is on the host", p, name)
				os.Remove(p + name)
			}
		}
		for i := 4; i <= 5; i++ {
			var blocks, files uint64
			if _, err := fmt.Sscanf(o.answers[i].Out, "blocks=%d files=%d", &blocks, &files); err != nil || blocks == 0 || files == 0 {
				t.Errorf("no limit of size or inodes: %s", o.answers[i].Out)
			}
		}
		// On disk, per run.
		disk := tree(t)
		for _, n := range TmpNames() {
			os.Mkdir(disk+"/"+n, 0o777)
			os.Chmod(disk+"/"+n, 0o1777)
		}
		check(t, &setup{profile: grants(), options: Options{TmpDir: disk}}, []row{yes("append", "/tmp/kept", "x"), yes("append", "/var/tmp/kept", "x"), no(closed, "read", host+"/x")})
		for _, n := range TmpNames() {
			if _, err := os.Lstat(disk + "/" + n + "/kept"); err != nil {
				t.Errorf("the directory on disk was not used: %v", err)
			}
		}
	})
}

// The pinned names replace the host's /etc/hosts for this run only.
func TestHostsFile(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		hosts := "192.0.2.7 pinned.example.org\n"
		for _, rules := range [][]string{nil, {"r /etc"}, {"r /"}} {
			o := confine(t, &setup{profile: grants(rules...), options: Options{Hosts: []byte(hosts)}}, do("read", "/etc/hosts"), do("write", "/etc/hosts"), do("chmod", "/etc/hosts"))
			if o.answers[0].Out != hosts {
				t.Errorf("with %v: /etc/hosts is %q", rules, o.answers[0].Out)
			}
			// As an ordinary user both fail outside too, so the errno is what shows the mount.
			judge(t, "inside", no(readOnly, "write", "/etc/hosts"), o.answers[1])
			judge(t, "inside", no(errs(unix.EROFS), "chmod", "/etc/hosts"), o.answers[2])
		}
	})
}

// After pivot_root the old root is gone, also by the ways round it.
func TestOldRootIsGone(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "x")
		check(t, &setup{profile: grants()}, []row{
			no(closed, "stat", "/.."+d+"/x"),
			no(closed, "stat", "/../../.."+d),
			no(closed, "stat", "/proc/self/root/.."+d),
			no(closed, "stat", d),
			yes("stat", "/proc/self/root"),
		})
	})
}

// The skeleton has modes that others can pass, whatever the caller's umask, and
// the command has the caller's.
func TestSkeletonAndUmask(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "a/b/c/x")
		old := unix.Umask(0o077)
		defer unix.Umask(old)
		o := confine(t, &setup{profile: grants("r " + d + "/a/b/c")}, do("stat", d+"/a/b"), do("stat", d), do("mkdir-keep", "/tmp/d"), do("append", "/tmp/f", ""), do("stat", "/tmp/f"), do("stat", "/tmp"))
		for i, want := range map[int]string{0: "40755", 1: "40755", 4: "100600", 5: "41777"} {
			if o.answers[i].Out != want {
				t.Errorf("mode %s (%v), want %s", o.answers[i].Out, o.answers[i].Errno, want)
			}
		}
	})
}
