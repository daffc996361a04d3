package run

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"lockbox/test/inside"
)

// A run beyond its memory is ended, and the limit is named. K-007, K-018
func TestMemory(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		limit, most := []string{"--memory", "96MiB"}, "512"
		if c.uid != 0 {
			// RLIMIT_DATA counts what is mapped, and Go maps 64 MiB at a time.
			limit, most = []string{"--memory", "512MiB"}, "1024"
		}
		c.told(t, limit, "memory", "16").want(t, 0, "touched 16") // control
		r := c.told(t, limit, "memory", most)
		if c.uid == 0 {
			r.want(t, 137, "", "lockbox: killed: the memory limit of 96MiB was reached\n", "hint: ")
			if r.receipt.Exit.Cause != "memory" || r.receipt.find("memory", "100663296").Kind != "limit" {
				t.Errorf("receipt: %+v", r.receipt)
			}
			if r.receipt.Usage.RSS < 90<<20 || r.receipt.Usage.RSS > 97<<20 { // the kernel counts in batches
				t.Errorf("peak %d", r.receipt.Usage.RSS)
			}
			return
		}
		// No cgroup that this user may write to: each process for itself.
		if r.code == 0 || strings.Contains(r.out, "touched") || !strings.Contains(r.err, "out of memory") {
			t.Errorf("%+v", r)
		}
		if l := r.receipt.by("limits"); !strings.Contains(l, "RLIMIT_DATA") {
			t.Errorf("limits by %q", l)
		}
		for _, l := range r.receipt.Layers {
			if l.Layer == "limits" && !strings.Contains(l.Note, "per process") {
				t.Errorf("note %q", l.Note)
			}
		}
	})
}

// The kernel may end only a child, and the main program exits with 0: the limit
// is named all the same, from the counters (soundness 18).
func TestMemoryOfAChild(t *testing.T) {
	c := as(t, 0)
	r := c.told(t, []string{"--memory", "96MiB"}, "memory-child", "512")
	r.want(t, 137, "", "the memory limit of 96MiB was reached")
	if r.receipt.Exit.Cause != "memory" {
		t.Errorf("receipt: %+v", r.receipt.Exit)
	}
	if r.receipt.Exit.Signal == "" && r.receipt.Exit.Code != 0 {
		t.Errorf("the main program's own end is kept: %+v", r.receipt.Exit)
	}
}

// A fork bomb meets EAGAIN. K-007
func TestForkBomb(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		r := c.told(t, []string{"--pids", "40"}, "forks", "500")
		r.want(t, 7, "EAGAIN")
		if strings.Contains(r.out, "forks 0 ") {
			t.Error("not one fork: the limit is not what was tested")
		}
		if c.uid != 0 {
			if l := r.receipt.by("limits"); !strings.Contains(l, "RLIMIT_NPROC") {
				t.Errorf("limits by %q", l)
			}
			return
		}
		if r.receipt.Exit.Cause != "pids" || !strings.Contains(r.err, "the pids limit of 40 was reached") {
			t.Errorf("%+v %s", r.receipt.Exit, r.err)
		}
		if p := r.receipt.Usage.Pids; p != 40 && p != -1 { // pids.peak: since 6.9
			t.Errorf("peak of %d processes", p)
		}
	})
}

// The init is not counted: one process is one process.
func TestOnePid(t *testing.T) {
	c := as(t, 0)
	file := c.home + "/x"
	r := finish(t, c.command([]string{"--pids", "1", "--receipt", file}, "/bin/true"), "")
	r.want(t, 0, "")
}

func TestWall(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		wall := []string{"--timeout", "400ms"}
		c.run(t, []string{"--timeout", "30s"}, "exit", "3").want(t, 3, "") // control
		r := c.told(t, wall, "sleep", "60000")
		r.want(t, 124, "", "lockbox: killed: the wall limit of 400ms passed")
		if r.receipt.Exit.Cause != "timeout" || r.receipt.MS < 400 || r.receipt.MS > 2000 {
			t.Errorf("receipt: %+v %d ms", r.receipt.Exit, r.receipt.MS)
		}
		if d := r.receipt.find("wall", "400ms"); d.Kind != "limit" || d.Rule != "limits.wall" {
			t.Errorf("denials %+v", r.receipt.Denials)
		}
		// It may clean up on SIGTERM.
		r = c.told(t, wall, "on-term", "0")
		r.want(t, 124, "term")
		if r.receipt.Exit.Signal != "" || r.receipt.Exit.Code != 0 {
			t.Errorf("its own end: %+v", r.receipt.Exit)
		}
		// What ignores it is killed after two seconds.
		r = c.told(t, wall, "ignore-term")
		r.want(t, 124, "ready")
		if r.receipt.Exit.Signal != "SIGKILL" || r.took < 2300*time.Millisecond || r.took > 8*time.Second {
			t.Errorf("%+v after %s", r.receipt.Exit, r.took)
		}
	})
}

// Exactly the limit is passed on. Both streams count.
func TestOutput(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		limit := []string{"--output-limit", "64KiB"}
		r := c.told(t, limit, "spew", "65536")
		r.want(t, 0, "")
		if len(r.out) != 65536 {
			t.Errorf("%d bytes of 65536", len(r.out))
		}
		r = c.told(t, limit, "spew", "65537")
		if len(r.out) != 65536 {
			t.Errorf("%d bytes at a limit of 65536", len(r.out))
		}
		r = c.told(t, limit, "spew", "100000000")
		r.want(t, 137, "", "killed: the output limit of 64KiB was reached")
		if len(r.out) != 65536 || r.receipt.Exit.Cause != "output" {
			t.Errorf("%d bytes, %+v", len(r.out), r.receipt.Exit)
		}
	})
}

// A reader that goes away does not end the supervisor before it has cleaned up.
func TestOutputClosed(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for _, flags := range [][]string{{"--output-limit", "1GiB"}, {"--receipt", c.home + "/r"}} {
			x := c.command(flags, c.in("spew", "100000000")...)
			r, w, err := os.Pipe()
			must(t, err)
			x.Stdout = w
			must(t, x.Start())
			w.Close()
			r.Read(make([]byte, 10))
			r.Close()
			x.Wait()
			if got := code(x.ProcessState); got != 141 && got != 9 { // SIGPIPE; Go reports EPIPE on other descriptors
				t.Errorf("%v: code %d", flags, got)
			}
			c.clean(t)
		}
	})
}

func TestCPU(t *testing.T) {
	c := as(t, 0)
	free := c.told(t, nil, "spin", "1000")
	held := c.told(t, []string{"--cpu", "0.05"}, "spin", "1000")
	if held.receipt.Usage.CPU > 50+held.receipt.MS/20*2 || free.receipt.Usage.CPU < held.receipt.Usage.CPU+50 {
		t.Errorf("cpu time %d ms in %d ms at a twentieth, %d ms without a limit", held.receipt.Usage.CPU, held.receipt.MS, free.receipt.Usage.CPU)
	}
}

// An ordinary user without a cgroup cannot have a cpu limit, and says so. K-018
func TestCPUWithoutCgroup(t *testing.T) {
	c := as(t, nobodyOrSelf())
	c.refused(t, c.run(t, []string{"--cpu", "0.5"}, "exit", "0"), `cannot enforce "cpu"`, "--weaker cpu")
	r := c.told(t, []string{"--cpu", "0.5", "--weaker", "cpu"}, "exit", "3")
	r.want(t, 3, "")
	if len(r.receipt.Weaker) != 1 || r.receipt.Weaker[0] != "cpu" {
		t.Errorf("weaker: %v", r.receipt.Weaker)
	}
}

func nobodyOrSelf() int {
	if uid := os.Getuid(); uid != 0 {
		return uid
	}
	return nobody
}

func TestFileLimits(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		profile := c.home + "/limits.toml"
		must(t, os.WriteFile(profile, []byte("version = 1\nname = \"limits\"\nextends = [\"base\"]\n[limits]\nfiles = 64\nfile_size = \"1MiB\"\n"), 0o644))
		flags := []string{"-p", profile}
		c.told(t, flags, "files").want(t, 0, "files EMFILE")
		r := c.told(t, flags, "file-size", "/tmp/big")
		r.want(t, 0, "file-size 1048576 EFBIG")
		if l := r.receipt.by("limits"); l != "rlimits" {
			t.Errorf("limits by %q", l)
		}
		// The control: without the profile neither is met.
		c.run(t, nil, "file-size", "/tmp/big").want(t, 0, "file-size all")
	})
}

// Large output without a limit passes whole, and stdin reaches its end.
func TestStreams(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		big := string(bytes.Repeat([]byte("0123456789"), 100_000))
		for _, flags := range [][]string{nil, {"--receipt", c.home + "/r"}, {"--output-limit", "1GiB"}} {
			r := finish(t, c.command(flags, c.in("copy")...), big)
			r.want(t, 0, "", "copied 1000000")
			if r.out != big {
				t.Errorf("%v: %d bytes came back", flags, len(r.out))
			}
		}
		x := c.command(nil, c.probe, inside.Arg, "copy")
		r := finish(t, x, "")
		r.want(t, 0, "", "copied 0")
	})
}
