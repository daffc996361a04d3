package escape

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/test/ownnet"
)

// A caller is who starts the run.
type caller struct {
	name string
	uid  int
	// controls is how many rows at least must work unconfined, on any kernel that is tested: a control that tests nothing
	// must not pass unseen.
	controls int
}

// callers: as root both are tried; an ordinary user tries itself.
func callers() []caller {
	if uid := os.Getuid(); uid != 0 {
		return []caller{{"user", uid, userControls}}
	}
	return []caller{{"root", 0, rootControls}, {"user", 65534, userControls}}
}

const (
	rootControls = 150
	userControls = 115
)

// A mode is one way of starting the run; each has mechanisms of its own.
type mode struct {
	name     string
	flags    []string
	rootOnly bool
	launch   bool     // start lockbox as a child that leads no process group: then it can become the command in place
	only     []string // the probes to try; none means all
	open     []string // rows that are open in this mode, because its flags ask for that
	needABI  int      // of Landlock: below it the run must be refused
}

var modes = []mode{
	{name: "plain"},
	{name: "in-place", launch: true},
	{name: "tty", flags: []string{"--tty"}, open: []string{"dev-tty", "dev-ptmx"}},
	{name: "receipt", flags: []string{"--receipt", "RECEIPT"}},
	{name: "limits", flags: []string{"--pids", "512", "--memory", "1GiB"}, rootOnly: true},
	// In the host's network namespace only Landlock's scope (6.12, ABI 6) closes abstract sockets.
	{name: "direct", flags: []string{"--net", "direct"}, rootOnly: true, needABI: 6},
	// Lockbox's own state stays closed below a granted folder, and the named profiles even where they are granted by name.
	{name: "granted", flags: []string{"--rw", "AREA", "--rw", "CONFIG"}, only: []string{"state-read", "state-write", "state-stat", "config-write"}},
}

// TestEscapes tries every probe unconfined, as the positive control, and in a run.
// K-002, K-004, K-005, K-006, K-008, K-018, K-019, K-020, K-022, K-023, K-024, K-028, L-040, L-041, L-042, L-043, L-044, L-045, L-046, L-047
func TestEscapes(t *testing.T) {
	prog := programs(t)
	for _, c := range callers() {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, prog, c)
			control := s.try(t, nil, []string{s.probe})
			checkControl(t, c, control)
			for _, m := range modes {
				if m.rootOnly && c.uid != 0 {
					continue
				}
				t.Run(m.name, func(t *testing.T) {
					if abi := landlockABI(t); abi < m.needABI {
						s.refused(t, s.command(m))
						return
					}
					got := s.try(t, m.only, s.command(m))
					checkRun(t, m, got)
				})
			}
		})
	}
}

// checkControl: each row works, or fails with an errno for which it has a reason.
func checkControl(t *testing.T, c caller, got map[string]result) {
	worked := 0
	for name := range got {
		if _, ok := table[name]; !ok {
			t.Errorf("probe %s has no row", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		r, ok := got[name]
		switch {
		case !ok:
			t.Errorf("row %s: the probe said nothing", name)
		case r.OK:
			worked++
		case table[name].cannot[r.Errno] == "":
			t.Errorf("row %s: %s unconfined: the control shows nothing", name, r.Errno)
		default:
			t.Logf("no control here for %s: %s (%s)", name, r.Errno, table[name].cannot[r.Errno])
		}
	}
	t.Logf("%d of %d rows work unconfined", worked, len(table))
	if worked < c.controls {
		t.Errorf("%d rows work unconfined, want at least %d", worked, c.controls)
	}
}

// checkRun: each row is denied with one of its errnos, or open by design.
func checkRun(t *testing.T, m mode, got map[string]result) {
	for name, r := range got {
		if _, ok := table[name]; !ok {
			t.Errorf("%s: %s", name, r.Errno)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if len(m.only) > 0 && !slices.Contains(m.only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			want := table[name]
			r, ok := got[name]
			switch {
			case !ok:
				t.Fatal("the probe said nothing")
			case r.OK && slices.Contains(m.open, name):
				t.Log("open, as asked")
			case r.OK && want.open == "" && want.mayBeOpen == "":
				t.Fatalf("OPEN: reached from inside the run; want one of %v", want.denied)
			case r.OK:
				t.Logf("open: %s%s", want.open, want.mayBeOpen)
			case r.Errno == "no-victim" && want.cannot[r.Errno] != "":
				t.Logf("not tried: %s", want.cannot[r.Errno])
			case want.open != "":
				t.Fatalf("%s (%s), want open: %s", r.Errno, r.Note, want.open)
			case !slices.Contains(want.denied, r.Errno):
				t.Fatalf("denied with %s (%s), want one of %v", r.Errno, r.Note, want.denied)
			default:
				t.Log(r.Errno)
			}
		})
	}
}

type result struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Errno string `json:"errno"`
	Note  string `json:"note"`
	Port  int    `json:"port"`
}

// A scene is a folder with the programs, a victim and a work folder, all belonging to one caller.
type scene struct {
	caller
	dir, lockbox, probe string
	target              map[string]any
	env                 []string
	signals             *counter
}

func newScene(t *testing.T, prog binaries, c caller) *scene {
	dir, err := os.MkdirTemp(sceneRoot(t), "lockbox-escape-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the scene: %v", err)
		}
	})
	s := &scene{caller: c, dir: dir, lockbox: dir + "/bin/lockbox", probe: dir + "/tool/probe"}
	must(t, os.Chmod(dir, 0o755))
	for _, d := range []string{"bin", "tool", "suid", "work", "victim", "home", "home/area", "home/area/state", "home/config", "home/config/lockbox", "home/config/lockbox/profiles"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for to, from := range map[string]string{"bin/lockbox": prog.lockbox, "bin/lockbox-runner": prog.runner, "tool/probe": prog.probe, "suid/probe": prog.probe} {
		copyFile(t, from, filepath.Join(dir, to))
	}
	must(t, os.WriteFile(dir+"/home/area/state/secret", []byte(secret), 0o600))
	if os.Getuid() == 0 {
		// Root takes another id by it, a user takes root's.
		owner := 0
		if c.uid == 0 {
			owner = 12345
		}
		must(t, os.Chown(dir+"/suid/probe", owner, -1))
		for _, d := range []string{"work", "victim", "home"} {
			must(t, filepath.WalkDir(filepath.Join(dir, d), func(p string, _ os.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return os.Lchown(p, c.uid, c.uid)
			}))
		}
	}
	must(t, os.Chmod(dir+"/home/area/state", 0o700))
	must(t, os.Chmod(dir+"/suid/probe", 0o755|os.ModeSetuid))
	s.env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir + "/home", "LOCKBOX_HOME=" + dir + "/home/area/state", "XDG_CONFIG_HOME=" + dir + "/home/config", "LOCKBOX_ESCAPE_SECRET=" + secret}
	if os.Getuid() == 0 { // direct runs leave the programs pinned until the machine stops
		t.Cleanup(func() {
			cmd := exec.Command(s.lockbox, "doctor", "--remove")
			cmd.Env = s.env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("doctor --remove: %v\n%s", err, out)
			}
		})
	}
	s.startVictim(t)
	s.target["work"], s.target["suid"] = dir+"/work", dir+"/suid/probe"
	s.target["state"], s.target["config"] = dir+"/home/area/state/secret", dir+"/home/config/lockbox/profiles"
	s.target["unix_run"] = runSocket(t)
	s.target["metadata"] = ownnet.Inside()
	s.target["cgroup"], s.target["bpffs"], s.target["disk"] = mountOf("cgroup2"), bpffs(t, dir), disk()
	return s
}

// secret is what the probe's victim keeps.
const secret = "lockbox-escape-secret-0123456789"

// sceneRoot is a folder that is neither below /tmp, which is private in a run anyway, nor below a home.
func sceneRoot(t *testing.T) string {
	if os.Getuid() != 0 {
		home, err := os.UserHomeDir()
		must(t, err)
		return home
	}
	must(t, os.MkdirAll("/srv", 0o755))
	return "/srv"
}

func (s *scene) as(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid), Groups: []uint32{}}
	}
	cmd.Env, cmd.Dir = s.env, s.dir+"/work"
}

// startVictim starts the process that owns what the probes reach for.
func (s *scene) startVictim(t *testing.T) {
	highPid(t)
	cmd := exec.Command(s.probe, "victim", s.dir+"/victim")
	s.as(cmd)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	lines := bufio.NewReader(out)
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("victim: %v", err)
		}
	})
	line, err := lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the victim did not start: %v", err)
	}
	must(t, json.Unmarshal(line, &s.target))
	s.signals = &counter{}
	go func() { // ends with the victim's standard output
		for {
			if _, err := lines.ReadBytes('\n'); err != nil {
				return
			}
			s.signals.add()
		}
	}()
}

// highPid moves the next pid out of the range that a fresh pid namespace gives: else the victim's number may be that of a
// process in the run. Only root can; otherwise the pids of a long-running system are high anyway.
func highPid(t *testing.T) {
	if os.Getuid() != 0 || os.Getpid() > 5000 {
		return
	}
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("20000"), 0); err != nil {
		t.Logf("the victim's pid stays low: %v", err)
	}
}

// command is the command line of a run in that mode, before the probe's own arguments.
func (s *scene) command(m mode) []string {
	argv := []string{s.lockbox, "run", "-p", "base", "--rw", s.dir + "/work", "--rx", s.dir + "/tool", "--rx", s.dir + "/suid", "--workdir", s.dir + "/work"}
	for _, f := range m.flags {
		argv = append(argv, strings.NewReplacer("AREA", s.dir+"/home/area", "CONFIG", s.dir+"/home/config/lockbox",
			"RECEIPT", s.dir+"/home/receipt-"+m.name).Replace(f))
	}
	argv = append(argv, "--", s.probe)
	if m.launch {
		argv = append([]string{s.probe, "launch"}, argv...)
	}
	return argv
}

// try runs the probes by the command and returns what each said.
func (s *scene) try(t *testing.T, only []string, argv []string) map[string]result {
	target, err := json.Marshal(s.target)
	must(t, err)
	argv = append(argv, "run", string(target))
	cmd := exec.Command(argv[0], append(argv[1:], only...)...)
	master, slave := terminal(t)
	defer master.Close()
	defer slave.Close()
	cmd.Stdin = slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	s.as(cmd)
	secretFile, err := os.Open(s.dir + "/victim/secret")
	must(t, err)
	defer secretFile.Close()
	victimDir, err := os.Open(s.dir + "/victim")
	must(t, err)
	defer victimDir.Close()
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, victimDir, secretFile} // 8 and 9
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	before := s.signals.get()
	must(t, cmd.Start())
	timer := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	got := s.read(t, out)
	if err := cmd.Wait(); err != nil && len(got) == 0 {
		t.Fatalf("%s: %v\n%s", strings.Join(argv[:2], " "), err, stderr.String())
	} else if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(argv[:2], " "), err, stderr.String())
	}
	if r, ok := got["sigio"]; ok && r.OK && s.signals.get() == before {
		got["sigio"] = result{Name: "sigio", Errno: "not-delivered"}
	}
	return got
}

// refused: where a promise has no mechanism, the run is refused with a reason and the command never starts (K-018).
func (s *scene) refused(t *testing.T, argv []string) {
	cmd := exec.Command(argv[0], append(argv[1:], "ids")...)
	s.as(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 125 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "cannot enforce") {
		t.Fatalf("want exit 125, nothing run and a reason; got %v, stdout %q, stderr %q", err, stdout.String(), stderr.String())
	}
	t.Log(stderr.String())
}

// landlockABI asks the kernel.
func landlockABI(t *testing.T) int {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	if errno != 0 {
		t.Fatalf("landlock_create_ruleset: %v", errno)
	}
	return int(abi)
}

// read collects the lines; a line with a port asks for a connection from outside.
func (s *scene) read(t *testing.T, out io.Reader) map[string]result {
	got := map[string]result{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("line %q: %v", lines.Text(), err)
			continue
		}
		if r.Port != 0 {
			if c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), 300*time.Millisecond); err == nil {
				c.Close()
			}
			continue
		}
		got[r.Name] = r
	}
	return got
}

// terminal opens a pseudo terminal pair.
func terminal(t *testing.T) (master, slave *os.File) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	return master, slave
}

// runSocket is a listening socket in /run that everyone may connect to; an ordinary user has none.
func runSocket(t *testing.T) string {
	if os.Getuid() != 0 {
		return ""
	}
	path := fmt.Sprintf("/run/lockbox-escape-%d.sock", os.Getpid())
	must(t, os.MkdirAll("/run", 0o755))
	os.Remove(path)
	l, err := net.Listen("unix", path)
	must(t, err)
	must(t, os.Chmod(path, 0o666))
	t.Cleanup(func() { l.Close() })
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return path
}

// mountOf is where a file system of that type is mounted.
func mountOf(fstype string) string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "/nonexistent"
	}
	for line := range strings.Lines(string(b)) {
		left, right, ok := strings.Cut(line, " - ")
		if ok && strings.HasPrefix(right, fstype+" ") {
			return strings.Fields(left)[4]
		}
	}
	return "/nonexistent"
}

// bpffs is a bpffs of the scene's own where the test may mount one.
func bpffs(t *testing.T, dir string) string {
	if os.Getuid() != 0 {
		return mountOf("bpf")
	}
	path := dir + "/bpffs"
	must(t, os.Mkdir(path, 0o755))
	must(t, unix.Mount("bpf", path, "bpf", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) })
	return path
}

func disk() string {
	for _, p := range []string{"/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/ram0", "/dev/loop0"} {
		if st, err := os.Stat(p); err == nil && st.Mode()&os.ModeDevice != 0 {
			return p
		}
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
