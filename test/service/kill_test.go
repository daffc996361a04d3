package service

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockbox/runner/broker/client"
	"lockbox/test/apart"
)

// SIGKILL of the supervisor at any moment: the service ends every process of the
// run, keeps a receipt if there was one, and leaves nothing. K-007, K-018, K-019
func TestSupervisorKilled(t *testing.T) {
	b := serve(t)
	root, user := as(t, b, 0), as(t, b, nobody)
	kinds := []struct {
		c     caller
		flags []string
	}{{user, []string{"--pids", "100"}}, {root, []string{"--memory", "1GiB"}}, {user, []string{"--net", "direct"}}}
	user.run(t, kinds[2].flags, "exit", "0").want(t, 0, "") // the programs are there from here on
	fds, _, _ := b.usage(t)
	for i := range 24 {
		k := kinds[i%len(kinds)]
		tag := fmt.Sprint("tag-", i)
		x := k.c.command(k.flags, k.c.in("daemon", tag, "60000")...)
		must(t, x.Start())
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		x.Process.Kill()
		x.Wait()
		if !eventually(3*time.Second, func() bool { return len(processes(tag)) == 0 && len(apart.Runs()) == 0 }) {
			t.Fatalf("%v: left: %v %v", k.flags, processes(tag), apart.Runs())
		}
	}
	// The control, and its receipt.
	x := user.command(kinds[0].flags, user.in("daemon", "control", "60000")...)
	must(t, x.Start())
	if !eventually(10*time.Second, func() bool { return len(processes("control 60000 2")) > 0 }) {
		t.Error("no daemon at all")
	}
	run := strings.Fields(b.asked(t, nobody, "ps"))[0]
	x.Process.Kill()
	x.Wait()
	if !eventually(3*time.Second, func() bool { return len(processes("control")) == 0 && b.asked(t, 0, "ps") == "" }) {
		t.Errorf("left: %v", processes("control"))
	}
	if got := b.asked(t, nobody, "receipt", run); !strings.Contains(got, `"cause":"killed"`) || !strings.Contains(got, "not known") || !strings.Contains(got, `"signal":"SIGKILL"`) {
		t.Errorf("receipt: %s", got)
	}
	if !eventually(3*time.Second, func() bool { n, _, _ := b.usage(t); return n <= fds }) {
		n, _, _ := b.usage(t)
		t.Errorf("%d descriptors, before %d", n, fds)
	}
	if left, _ := os.ReadDir(b.home + "/run/slots"); len(left) > 0 {
		t.Errorf("locks: %v", left)
	}
}

// SIGKILL of the service: its runs stay as confined as they were, their clients
// say what is not known, and the next service ends what is left and says what.
// K-007, K-018, K-019, K-025
func TestServiceKilled(t *testing.T) {
	b := serve(t)
	c := as(t, b, nobody)
	type live struct {
		*exec.Cmd
		out  *lines
		file string
	}
	start := func(i int, flags []string, args ...string) *live {
		l := &live{out: &lines{}, file: fmt.Sprintf("%s/receipt-%d", c.home, i)}
		l.Cmd = c.command(append(flags, "--receipt", l.file), c.in(args...)...)
		l.Stdout, l.Stderr = l.out, l.out
		must(t, l.Start())
		t.Cleanup(func() { l.Process.Kill(); l.Wait() })
		return l
	}
	// told is a run that does its work once the pipe is closed.
	told := func(i int, flags []string, cmd string) (*live, *os.File) {
		r, w, err := os.Pipe()
		must(t, err)
		l := &live{out: &lines{}, file: fmt.Sprintf("%s/receipt-%d", c.home, i)}
		l.Cmd = c.command(append(flags, "--receipt", l.file), "/bin/sh", "-c", "read x; exec "+c.probe+" @inside "+cmd)
		l.Stdin, l.Stdout, l.Stderr = r, l.out, l.out
		must(t, l.Start())
		r.Close()
		t.Cleanup(func() { w.Close(); l.Process.Kill(); l.Wait() })
		return l, w
	}
	var stay []*live
	for i := range 6 {
		stay = append(stay, start(i, [][]string{{"--pids", "50"}, {"--net", "direct"}}[i%2], "ready", "60000"))
	}
	later, go1 := told(6, []string{"--net", "direct", "--memory", "96MiB"}, "serve")
	quiet, go2 := told(7, []string{"--memory", "96MiB"}, "exit 3")
	for _, l := range stay {
		if !eventually(10*time.Second, func() bool { return strings.Contains(l.out.String(), "ready") }) {
			t.Fatalf("%s", l.out)
		}
	}
	if !eventually(10*time.Second, func() bool { return strings.Count(b.asked(t, 0, "ps"), "running") == 8 }) {
		t.Fatalf("live: %s", b.asked(t, 0, "ps"))
	}
	b.kill()

	// Those that live are confined: in their cgroups, with their entries.
	for _, l := range []*live{later, quiet} {
		go1.Close()
		go2.Close()
		l.Wait()
		if !strings.Contains(l.out.String(), "runner's service: it went away") || strings.Count(l.out.String(), "went away") != 1 {
			t.Errorf("the client says: %s", l.out)
		}
		r := readReceipt(t, l.file)
		if r.Usage.Pids != -1 || !strings.Contains(strings.Join(r.Notes, "\n"), "not known") {
			t.Errorf("receipt: %+v %q", r.Usage, r.Notes)
		}
	}
	if !strings.Contains(later.out.String(), "serve ok hello") {
		t.Errorf("its own loopback: %s", later.out)
	}
	if n := len(apart.Runs()); n < 6 {
		t.Errorf("%d cgroups of runs", n)
	}
	for _, l := range stay {
		if err := l.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("a run ended with the service: %v", err)
		}
	}

	b.start(t)
	for _, l := range stay {
		l.Wait()
		r := readReceipt(t, l.file)
		if code(l.ProcessState) != 137 || !strings.Contains(l.out.String(), "it went away") {
			t.Errorf("code %d: %s", code(l.ProcessState), l.out)
		}
		if !strings.Contains(b.log.String(), r.Run) {
			t.Errorf("the next service does not name %s:\n%s", r.Run, b.log)
		}
	}
	c.clean(t)
	c.told(t, []string{"--net", "direct"}, "exit", "3").want(t, 3, "")
}

// What holds a run does not need the service: connect stays EPERM, the memory
// limit ends it. K-007, K-008
func TestConfinedWithoutService(t *testing.T) {
	b := serve(t)
	c := as(t, b, nobody)
	script := func(cmd string) string { return "read x; exec " + c.probe + " @inside " + cmd }
	type live struct {
		*exec.Cmd
		out *lines
		in  *os.File
	}
	start := func(flags []string, cmd string) live {
		r, w, err := os.Pipe()
		must(t, err)
		l := live{c.command(flags, "/bin/sh", "-c", "echo ready; "+script(cmd)), &lines{}, w}
		l.Stdin, l.Stdout, l.Stderr = r, l.out, l.out
		must(t, l.Start())
		r.Close()
		if !eventually(10*time.Second, func() bool { return strings.Contains(l.out.String(), "ready") }) {
			t.Fatalf("%s", l.out)
		}
		return l
	}
	net := start([]string{"--net", "direct"}, "connect 203.0.113.5:9 3")
	mem := start([]string{"--memory", "96MiB"}, "memory 512")
	pids := start([]string{"--pids", "40"}, "forks 500")
	b.kill()
	for _, l := range []live{net, mem, pids} {
		l.in.WriteString("\n")
		l.in.Close()
		l.Wait()
	}
	if !strings.Contains(net.out.String(), "EPERM") {
		t.Errorf("connect: %s", net.out)
	}
	if strings.Contains(mem.out.String(), "touched") || code(mem.ProcessState) == 0 {
		t.Errorf("memory: %s", mem.out)
	}
	if !strings.Contains(pids.out.String(), "EAGAIN") {
		t.Errorf("pids: %s", pids.out)
	}
	b.start(t)
	c.clean(t)
}

// SIGTERM ends the runs and the service, which exits with 0 and leaves nothing.
func TestServiceTerminated(t *testing.T) {
	b := serve(t)
	c := as(t, b, nobody)
	var all []*exec.Cmd
	for range 3 {
		x := c.command([]string{"--pids", "50"}, c.in("daemon", "under-term", "60000")...)
		must(t, x.Start())
		all = append(all, x)
	}
	idle, err := client.Dial(b.socket)
	must(t, err)
	defer idle.Close()
	if !eventually(10*time.Second, func() bool { return len(processes("under-term 60000 2")) == 3 }) {
		t.Fatal("no runs")
	}
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.cmd.Wait()
	if got := code(b.cmd.ProcessState); got != 0 {
		t.Errorf("code %d\n%s", got, b.log)
	}
	for _, x := range all {
		x.Wait()
		if code(x.ProcessState) != 137 {
			t.Errorf("code %d", code(x.ProcessState))
		}
	}
	c.clean(t)
	if _, err := os.Lstat(b.socket); !os.IsNotExist(err) {
		t.Errorf("the socket: %v", err)
	}
	files, _ := os.ReadDir(b.home + "/runner/receipts")
	if len(files) != 3 {
		t.Errorf("receipts: %v", files)
	}
	// Without a service the same command goes as far as it can by itself.
	as(t, b, 0).told(t, []string{"--pids", "50"}, "exit", "3").want(t, 3, "")
}
