package run

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"lockbox/test/apart"
)

// SIGKILL of the supervisor at any moment ends every process of the run at once,
// daemons too; what it leaves on disk and in cgroupfs goes with the next start.
// K-007, K-018, K-019
func TestSupervisorKilled(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		kinds := [][]string{{"--receipt", c.home + "/r"}, {"--timeout", "1m"}}
		if c.uid == 0 {
			c = root(t)
			kinds = append(kinds, []string{"--memory", "1GiB", "--pids", "100"}, []string{"--net", "direct", "--allow", "192.0.2.7:80"})
		}
		mounts := strings.Count(mountinfo(), "\n")
		for i := range 20 {
			tag := fmt.Sprintf("tag-%s-%d", c.name, i)
			x := c.command(kinds[i%len(kinds)], c.in("daemon", tag, "60000")...)
			must(t, x.Start())
			// A start takes 10 to 100 ms here: half of the kills hit it, half the run.
			time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
			x.Process.Kill()
			x.Wait()
			// Killed is not gone yet: the kernel takes a moment for each.
			if !eventually(2*time.Second, func() bool { return len(processes(tag)) == 0 }) {
				t.Fatalf("%v: alive after the supervisor's end: %v", kinds[i%len(kinds)], processes(tag))
			}
		}
		// The control: without the kill they live.
		x := c.command(kinds[0], c.in("daemon", "control", "60000")...)
		must(t, x.Start())
		if !eventually(10*time.Second, func() bool { return len(processes("control 60000 2")) > 0 }) {
			t.Error("no daemon at all")
		}
		x.Process.Kill()
		x.Wait()
		eventually(2*time.Second, func() bool { return len(processes("control")) == 0 })

		sweep := []string{"--timeout", "1m"}
		if c.uid == 0 {
			sweep = append(sweep, "--net", "direct")
		}
		c.run(t, sweep, "exit", "3").want(t, 3, "")
		c.clean(t)
		if n := strings.Count(mountinfo(), "\n"); n > mounts+1 { // the bpffs, once
			t.Errorf("%d mounts, before %d", n, mounts)
		}
	})
}

// Starts at the same time do not sweep each other.
func TestConcurrentStarts(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		kinds := [][]string{{"--timeout", "1m"}, {"--receipt", "/dev/null"}}
		if c.uid == 0 {
			c = root(t)
			kinds = append(kinds, []string{"--pids", "50"}, []string{"--net", "direct"})
		}
		var wg sync.WaitGroup
		errs := make(chan string, 100)
		for i := range 6 {
			wg.Go(func() {
				for j := range 6 {
					x := c.command(kinds[(i+j)%len(kinds)], c.in("exit", "7")...)
					out, _ := x.CombinedOutput()
					if got := code(x.ProcessState); got != 7 {
						errs <- fmt.Sprintf("%v: code %d: %s", kinds[(i+j)%len(kinds)], got, out)
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		for e := range errs {
			t.Error(e)
		}
		c.clean(t)
	})
}

// A limited run starts before, and lives on after, the egress programs come, and
// the other way round: one that starts beside them has its loopback. K-008, K-021
func TestLimitsBesideEgress(t *testing.T) {
	c := root(t)
	remove := func() {
		x := exec.Command(c.bin+"/lockbox", "doctor", "--remove")
		x.Env = c.environ()
		finish(t, x, "").want(t, 0, "")
	}
	remove()
	c.told(t, []string{"--pids", "50"}, "serve").want(t, 0, "serve ok hello") // no programs
	old := c.command([]string{"--pids", "50"}, c.in("serve-later", "1500")...)
	var out strings.Builder
	old.Stdout = &out
	must(t, old.Start())
	if !eventually(5*time.Second, func() bool { return len(apart.Runs()) > 0 }) {
		t.Fatal("no run")
	}
	time.Sleep(300 * time.Millisecond)
	c.told0(t, []string{"--net", "direct"}, "serve").want(t, 0, "serve ok hello")
	old.Wait()
	if !strings.Contains(out.String(), "serve ok hello") {
		t.Errorf("a run from before: %q", out.String())
	}
	r := c.told(t, []string{"--pids", "50"}, "serve")
	r.want(t, 0, "serve ok hello")
	if by := r.receipt.by("egress"); by != "empty network namespace, cgroup programs" {
		t.Errorf("egress by %q", by)
	}
	r = c.told(t, []string{"--pids", "50"}, "connect", "192.0.2.9:80", "3")
	if d := r.receipt.find("connect", "192.0.2.9:80"); d.Count != 3 {
		t.Errorf("denials %+v\n%s", r.receipt.Denials, r.out)
	}
	remove()
}

// told0 is told while other runs are on.
func (c caller) told0(t testing.TB, flags []string, args ...string) result {
	t.Helper()
	return finish(t, c.command(flags, c.in(args...)...), "")
}
