package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The confined program of these tests is the test binary itself: an environment
// variable names the part that it plays.
const (
	roleVar = "LOCKBOX_TEST_ROLE"
	baseVar = "LOCKBOX_TEST_BASE" // where the tests of another uid may write
)

// nobody is the ordinary user of tests that start as root.
const nobody = 65534

// base is a directory of this test process outside /tmp, which every run has of
// its own; prober is a copy of the test binary that every user may execute.
var base, prober string

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role)
	}
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	clean, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		return 1
	}
	defer clean()
	// What the runtime and os keep open from their first use on.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	before := held()
	code := m.Run()
	if code != 0 || os.Getenv("LOCKBOX_TEST_NO_LEAKS") != "" {
		return code
	}
	if left := leaks(before); left != "" {
		fmt.Fprintln(os.Stderr, "LEAK:", left)
		return 1
	}
	return 0
}

func prepare() (func(), error) {
	syscall.Umask(0o022)
	if base = os.Getenv(baseVar); base != "" {
		prober = filepath.Join(filepath.Dir(base), "bin", "prober")
		return func() {}, nil
	}
	parent := "/var/lib"
	if os.Geteuid() != 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		parent = home
	}
	top, err := os.MkdirTemp(parent, "lockbox-test-")
	if err != nil {
		return nil, err
	}
	clean := func() { os.RemoveAll(top) }
	base, prober = filepath.Join(top, "base"), filepath.Join(top, "bin", "prober")
	self, err := os.Executable()
	if err == nil {
		err = os.Chmod(top, 0o755)
	}
	for _, d := range []string{base, filepath.Join(top, "bin"), filepath.Join(top, "user")} {
		if err == nil {
			err = os.Mkdir(d, 0o755)
		}
	}
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(filepath.Join(top, "user"), nobody, nobody)
	}
	var image []byte
	if err == nil {
		image, err = os.ReadFile(self)
	}
	if err == nil {
		err = os.WriteFile(prober, image, 0o755)
	}
	if err == nil && os.Geteuid() == 0 {
		err = setuidCopies(filepath.Join(top, "bin"), image)
	}
	if err != nil {
		clean()
		return nil, err
	}
	return clean, nil
}

// setuidCopies are programs that gain an identity when an unconfined process
// executes them; see TestSetuidProgram.
func setuidCopies(dir string, image []byte) error {
	for name, uid := range map[string]int{"setuid-root": 0, "setuid-nobody": nobody} {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, image, 0o755); err != nil {
			return err
		}
		if err := os.Chown(p, uid, uid); err != nil {
			return err
		}
		if err := os.Chmod(p, 0o755|os.ModeSetuid); err != nil {
			return err
		}
	}
	return nil
}

// guest reports whether this is a VM without hardware support, where a start
// takes twenty times as long: tests do less of the same there.
func guest() bool { return os.Getenv("LOCKBOX_VM") != "" }

// everyTier runs f as root and as an ordinary user where the tests run as root,
// else as the user that they run as. The ordinary user is a process of its own.
func everyTier(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Run("user", f)
		return
	}
	t.Run("root", f)
	t.Run("user", func(t *testing.T) {
		name, _, _ := strings.Cut(t.Name(), "/")
		user := filepath.Join(filepath.Dir(base), "user")
		cmd := exec.Command(prober, "-test.run=^"+name+"$", "-test.v", "-test.timeout=100s")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), baseVar+"="+user, "HOME="+user)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name+"/user") {
			t.Fatalf("as uid %d: %v\n%s", nobody, err, out)
		}
		t.Logf("as uid %d:\n%s", nobody, out)
	})
}

// holdings are what a start may leave behind in this process or on this host.
type holdings struct {
	fds     []string
	threads int
	mounts  []string
}

func held() holdings {
	var h holdings
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasSuffix(target, "/fd") {
			h.fds = append(h.fds, target)
		}
	}
	slices.Sort(h.fds)
	h.threads = threads()
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for _, l := range strings.Split(string(b), "\n") {
		// Other tests of this host mount bpf and cgroup file systems; a start never does.
		if !strings.Contains(l, " - bpf ") && !strings.Contains(l, " - cgroup") {
			h.mounts = append(h.mounts, l)
		}
	}
	return h
}

func threads() int {
	e, _ := os.ReadDir("/proc/self/task")
	return len(e)
}

// leaks says what is held now and was not before.
func leaks(before holdings) string {
	var after holdings
	for range 50 { // a finished goroutine's file or thread may take a moment
		after = held()
		if len(after.fds) <= len(before.fds) && len(after.mounts) <= len(before.mounts) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	var out []string
	if len(after.fds) > len(before.fds) {
		out = append(out, fmt.Sprintf("descriptors: before %v, after %v", before.fds, after.fds))
	}
	for _, m := range after.mounts {
		if !slices.Contains(before.mounts, m) {
			out = append(out, "mount: "+m)
		}
	}
	if after.threads > before.threads+32 {
		out = append(out, "threads: "+strconv.Itoa(before.threads)+" → "+strconv.Itoa(after.threads))
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		out = append(out, fmt.Sprintf("a child is left: %d, %v", pid, err))
	}
	return strings.Join(out, "\n")
}
