package sandbox

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lockbox/sandbox/pid1"
)

// 300 starts in a row (60 in a VM guest), every tenth one ended in the middle: descriptors, threads,
// mounts, children and memory stay flat.
func TestLeaks(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "w/hooks/x")
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		program := d + "/program" // ends at once with 125
		if err := os.WriteFile(program, pid1.Binary, 0o755); err != nil {
			t.Fatal(err)
		}
		once := func(stop int) {
			s := &setup{profile: grants("rw "+d+"/w", "-r "+d+"/w/hooks", "rx "+program), options: Options{Path: program, Argv: []string{"program"}},
				start: StartOptions{Stdin: null, Stdout: null, Stderr: null, StopAt: stop}}
			if o, err := start(t, s); (err != nil) != (stop != 0) || err == nil && o.exit.Code != 125 {
				t.Fatalf("%v", err)
			}
		}
		once(0)
		runtime.GC()
		before, rss := held(), memory(t)
		starts := 300
		if guest() {
			starts = 60
		}
		for i := range starts {
			stop := 0
			if i%10 == 9 {
				stop = 1 + i%80
			}
			once(stop)
		}
		runtime.GC()
		if left := leaks(before); left != "" {
			t.Error(left)
		}
		after := held()
		if after.threads > before.threads+4 {
			t.Errorf("threads %d → %d", before.threads, after.threads)
		}
		t.Logf("threads %d → %d, resident %d → %d KiB", before.threads, after.threads, rss, memory(t))
		if now := memory(t); now > rss+32<<10 {
			t.Errorf("resident memory %d → %d KiB", rss, now)
		}
		if left := processesOf(prober); len(left) > 0 && os.Geteuid() == 0 {
			t.Errorf("processes left: %v", left)
		}
	})
}

// memory is this process's resident set in KiB.
func memory(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			for _, c := range rest {
				if c >= '0' && c <= '9' {
					n = n*10 + int(c-'0')
				}
			}
		}
	}
	return n
}

// soundness 1: this process may be the memory of a child that has another uid
// already. No start changes dumpable.
func TestDumpableIsNeverReset(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	// As root only: a process that is not dumpable may not write its child's id maps.
	if os.Geteuid() == 0 {
		confine(t, &setup{profile: grants()}, do("ids"))
	}
	if v, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || v != 0 {
		t.Errorf("dumpable is %d after a start, %v", v, err)
	}
}
