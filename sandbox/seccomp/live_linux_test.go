package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The live tests put a filter onto a re-executed copy of this test binary, since it cannot be taken off again.

const childEnv = "SECCOMP_TEST_CHILD"

// job is what the child shall do.
type job struct {
	Spec *Spec // nil: no filter, the control
	Dye  bool  // the filter answers with errnos that no kernel gives, which shows that the filter answered
	Exec []string
}

// Errnos of a dyed filter.
const (
	dyeRefuse = 3001
	dyeAbsent = 3002
)

func TestMain(m *testing.M) {
	text, isChild := os.LookupEnv(childEnv)
	if !isChild {
		os.Exit(m.Run())
	}
	os.Unsetenv(childEnv)
	if err := child(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(120)
	}
	os.Exit(0)
}

func child(text string) error {
	runtime.LockOSThread()
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if len(j.Exec) > 0 {
		path, err := exec.LookPath(j.Exec[0])
		if err != nil {
			return err
		}
		if err := confine(j); err != nil {
			return err
		}
		return syscall.Exec(path, j.Exec, os.Environ())
	}
	open, err := prepare()
	if err != nil {
		return err
	}
	if err := confine(j); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(ask(open))
}

func confine(j job) error {
	if j.Spec == nil {
		return nil
	}
	f, err := Build(*j.Spec)
	if err != nil {
		return err
	}
	if j.Dye {
		for i := range f {
			switch {
			case f[i].Code == opRet && Action(f[i].K) == Refuse:
				f[i].K = retErrno | dyeRefuse
			case f[i].Code == opRet && Action(f[i].K) == Absent:
				f[i].K = retErrno | dyeAbsent
			}
		}
	}
	return load(f, unix.SECCOMP_FILTER_FLAG_TSYNC)
}

func thisArch(t testing.TB) Arch {
	t.Helper()
	a, err := HostArch()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func command(t testing.TB, j job) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, for vhangup and TIOCSTI in the control
	return cmd
}

func answers(t *testing.T, j job) map[string]int {
	t.Helper()
	out, err := command(t, j).Output()
	if err != nil {
		var e *exec.ExitError
		if errors.As(err, &e) {
			t.Fatalf("child: %v\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	got := map[string]int{}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return got
}

// K-019, K-022, K-028: each denied class by its errno, the controls in the same process, and every call
// also without a filter (what works must give the same there) and under a dyed filter (what is denied must be denied by us).
func TestLive(t *testing.T) {
	a := thisArch(t)
	plain := answers(t, job{})
	for _, c := range []struct {
		name string
		spec Spec
		want func(probe) outcome
	}{
		{"default", Spec{Arch: a, AllowInet: true, SysVIPC: true}, func(p probe) outcome { return p.usual }},
		{"strict", Spec{Arch: a, AllowInet: true, SysVIPC: true, Strict: true}, func(p probe) outcome { return p.strict }},
		{"additions", Spec{Arch: a, AllowInet: true, SysVIPC: true, Additions: Additions()}, func(p probe) outcome {
			if p.addition {
				return works
			}
			return p.usual
		}},
		{"closed", Spec{Arch: a}, func(p probe) outcome {
			if p.asked {
				return refused
			}
			return p.usual
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			real, dyed := answers(t, job{Spec: &c.spec}), answers(t, job{Spec: &c.spec, Dye: true})
			n := map[outcome]int{}
			for _, p := range probes(&things{}) {
				want := c.want(p)
				n[want]++
				wantReal, wantDyed := plain[p.name], plain[p.name]
				switch want {
				case refused:
					wantReal, wantDyed = int(unix.EPERM), dyeRefuse
				case absentCall:
					wantReal, wantDyed = int(unix.ENOSYS), dyeAbsent
				}
				if got := real[p.name]; got != wantReal {
					t.Errorf("%s: errno %d (%v), want %d (%v); without filter %d", p.name, got, syscall.Errno(got), wantReal, syscall.Errno(wantReal), plain[p.name])
				}
				if got := dyed[p.name]; got != wantDyed {
					t.Errorf("%s: dyed filter gives errno %d, want %d", p.name, got, wantDyed)
				}
				if want == works && p.mustSucceed && plain[p.name] != 0 {
					t.Errorf("%s: control fails without a filter: %v", p.name, syscall.Errno(plain[p.name]))
				}
			}
			t.Logf("%d work, %d refused, %d absent", n[works], n[refused], n[absentCall])
			if n[works] < 30 || n[refused] < 50 || n[absentCall] < 5 {
				t.Error("too few probes ran")
			}
		})
	}
}

// Calls through another entry are killed: their numbers are other calls'.
func TestLiveOtherEntries(t *testing.T) {
	status := func(j job) syscall.WaitStatus {
		cmd := command(t, j)
		err := cmd.Run()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
	killed := func(w syscall.WaitStatus) bool { return w.Signaled() && w.Signal() == syscall.SIGSYS }

	// The filter of another architecture kills at the first call, so the architecture is looked at.
	here, other := thisArch(t), ARM64
	if here == ARM64 {
		other = AMD64
	}
	if got := status(job{Spec: &Spec{Arch: here}, Exec: []string{"true"}}); !got.Exited() || got.ExitStatus() != 0 {
		t.Errorf("true under the filter of %v: status %#x", here, got)
	}
	if got := status(job{Spec: &Spec{Arch: other}, Exec: []string{"true"}}); !killed(got) {
		t.Errorf("true under the filter of %v: status %#x, want SIGSYS", other, got)
	}
	if here != AMD64 {
		return // arm64 code has one entry only
	}

	for _, row := range []struct {
		name, code string
		killed     bool
	}{
		{"native", "\xb8\x27\x00\x00\x00\x0f\x05", false}, // mov eax, 39 (getpid); syscall
		{"int80", "\xb8\x14\x00\x00\x00\xcd\x80", true},   // mov eax, 20 (i386 getpid); int 0x80
		{"x32", "\xb8\x27\x00\x00\x40\x0f\x05", true},     // mov eax, 39 | bit 30; syscall
	} {
		path := filepath.Join(t.TempDir(), row.name)
		if err := os.WriteFile(path, tinyELF(row.code), 0o755); err != nil {
			t.Fatal(err)
		}
		plain := status(job{Exec: []string{path}})
		got := status(job{Spec: &Spec{Arch: AMD64}, Exec: []string{path}})
		switch {
		case row.name == "int80" && plain.Signaled() && plain.Signal() == syscall.SIGSEGV:
			// A kernel without IA32 emulation has no such entry; closed, though not by us.
			if got != plain {
				t.Errorf("int80: status %#x, without a filter %#x", got, plain)
			}
			t.Log("int80: this kernel has no IA32 emulation")
		case !plain.Exited() || plain.ExitStatus() != 7:
			t.Errorf("%s: control without a filter: status %#x, want exit 7", row.name, plain)
		case row.killed && !killed(got):
			t.Errorf("%s: status %#x, want SIGSYS", row.name, got)
		case !row.killed && got != plain:
			t.Errorf("%s: status %#x, want exit 7", row.name, got)
		}
	}
}

// tinyELF is an x86-64 program that runs code and exits with 7.
func tinyELF(code string) []byte {
	code += "\xb8\x3c\x00\x00\x00\xbf\x07\x00\x00\x00\x0f\x05" // exit(7)
	const head = 64 + 56
	b := []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	put := func(size int, v uint64) {
		for range size {
			b = append(b, byte(v))
			v >>= 8
		}
	}
	const base = 0x400000
	put(2, 2)  // ET_EXEC
	put(2, 62) // EM_X86_64
	put(4, 1)
	put(8, base+head) // entry
	put(8, 64)        // program headers
	put(8, 0)
	put(4, 0)
	put(2, 64)
	put(2, 56)
	put(2, 1)
	put(6, 0)
	put(4, 1) // PT_LOAD
	put(4, 5) // r-x
	put(8, 0)
	put(8, base)
	put(8, base)
	put(8, uint64(head+len(code)))
	put(8, uint64(head+len(code)))
	put(8, 0x1000)
	return append(b, code...)
}

// K-019: a child, its child by a double fork, and an exec keep the filter.
func TestLiveInherited(t *testing.T) {
	sh := `(setsid sh -c 'grep -E "^(Seccomp|NoNewPrivs):" /proc/self/status' </dev/null & wait); unshare -U true && echo escaped; true`
	show := func(j job) string {
		out, err := command(t, j).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	got := show(job{Spec: &Spec{Arch: thisArch(t)}, Exec: []string{"sh", "-c", sh}})
	if !strings.Contains(got, "Seccomp:\t2") || !strings.Contains(got, "NoNewPrivs:\t1") || strings.Contains(got, "escaped") ||
		!strings.Contains(got, "Operation not permitted") {
		t.Errorf("under the filter:\n%s", got)
	}
	if got := show(job{Exec: []string{"sh", "-c", sh}}); !strings.Contains(got, "Seccomp:\t0") {
		t.Errorf("control without a filter:\n%s", got)
	}
}

// BenchmarkLoad is what a run pays in the kernel for its filter: the median of seccomp(2) alone. Each load is made by
// a thread of its own, which then ends.
func BenchmarkLoad(b *testing.B) {
	for _, strict := range []bool{false, true} {
		b.Run(fmt.Sprintf("strict=%v", strict), func(b *testing.B) {
			f := build(b, Spec{Arch: thisArch(b), AllowInet: true, SysVIPC: true, Strict: strict})
			var took []time.Duration
			for b.Loop() {
				done := make(chan error)
				go func() {
					runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
					start := time.Now()
					err := load(f, 0)
					took = append(took, time.Since(start))
					done <- err
				}()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/load")
		})
	}
}
