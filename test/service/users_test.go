package service

import (
	"fmt"
	"io/fs"

	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/test/apart"
)

// An ordinary user's limits hold for the whole run, and are counted. K-007, K-018
func TestLimitsOfUsers(t *testing.T) {
	b := serve(t)
	c := as(t, b, nobody)
	t.Run("memory", func(t *testing.T) {
		c := as(t, b, nobody)
		limit := []string{"--memory", "96MiB"}
		c.told(t, limit, "memory", "16").want(t, 0, "touched 16") // control
		for _, cmd := range []string{"memory", "memory-child"} {
			r := c.told(t, limit, cmd, "512")
			r.want(t, 137, "", "lockbox: killed: the memory limit of 96MiB was reached\n")
			if r.receipt.Exit.Cause != "memory" || r.receipt.Usage.RSS < 90<<20 || r.receipt.Usage.RSS > 97<<20 {
				t.Errorf("%s: %+v %+v", cmd, r.receipt.Exit, r.receipt.Usage)
			}
		}
	})
	t.Run("pids", func(t *testing.T) {
		r := c.told(t, []string{"--pids", "40"}, "forks", "500")
		r.want(t, 7, "EAGAIN", "the pids limit of 40 was reached")
		if r.receipt.Exit.Cause != "pids" || strings.Contains(r.out, "forks 0 ") {
			t.Errorf("%+v %s", r.receipt.Exit, r.out)
		}
		finish(t, c.command([]string{"--pids", "1"}, "/bin/true"), "").want(t, 0, "") // the init is not counted
	})
	t.Run("cpu", func(t *testing.T) {
		free := c.told(t, []string{"--pids", "100"}, "spin", "800")
		held := c.told(t, []string{"--cpu", "0.05"}, "spin", "800")
		if held.receipt.Usage.CPU > 50+held.receipt.MS/20*2 || free.receipt.Usage.CPU < held.receipt.Usage.CPU+50 {
			t.Errorf("cpu time %d ms in %d ms at a twentieth, %d ms without a limit", held.receipt.Usage.CPU, held.receipt.MS, free.receipt.Usage.CPU)
		}
	})
	t.Run("without the service", func(t *testing.T) { // the control
		r := as(t, nil, nobody).run(t, []string{"--cpu", "0.5"}, "exit", "0")
		r.want(t, 125, "", `cannot enforce "cpu"`)
	})
}

// Direct egress of an ordinary user: refused connects are counted exactly, what
// is allowed gets through. K-008, K-022, K-025
func TestDirectOfUsers(t *testing.T) {
	b := serve(t)
	l, err := net.Listen("tcp", apart.Addr+":0")
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	to := l.Addr().String()
	for _, uid := range []int{nobody, 0} {
		c := as(t, b, uid)
		flags := []string{"--net", "direct"}
		r := c.told(t, flags, "connect", to, "7")
		r.want(t, 0, " EPERM")
		if d := r.receipt.find("connect", to); d.Count != 7 || len(r.receipt.Denials) != 1 || !strings.HasPrefix(d.By, "cgroup:") || d.Rule != "builtin:this-host" {
			t.Errorf("%s: %+v", c.name, r.receipt.Denials)
		}
		r = c.told(t, append(flags, "--allow", to), "connect", to, "2")
		r.want(t, 0, " ok")
		if len(r.receipt.Denials) != 0 {
			t.Errorf("%s: %+v", c.name, r.receipt.Denials)
		}
		c.told(t, flags, "serve").want(t, 0, "serve ok hello")
		// Names are looked up by the service.
		named := append(flags, "--allow", apart.Name+":443")
		c.told(t, named, "connect", apart.Far+":443", "1").want(t, 0, "ENETUNREACH")
		c.told(t, named, "connect", apart.Far+":444", "1").want(t, 0, "EPERM")
		c.run(t, append(flags, "--allow", "no-such-name.invalid:80"), "exit", "0").want(t, 125, "", "no-such-name.invalid")
		c.clean(t)
	}
}

// With the service and without it a receipt has the same keys, layers and words
// for them. K-018, K-025
func TestSameReceipt(t *testing.T) {
	b := serve(t)
	for _, flags := range [][]string{{"--memory", "256MiB", "--pids", "50"}, {"--net", "direct"}, {"--cpu", "1"}} {
		with := as(t, b, 0).told(t, flags, "exit", "3")
		without := as(t, nil, 0).told(t, flags, "exit", "3")
		user := as(t, b, nobody).told(t, flags, "exit", "3")
		for _, r := range []result{with, without, user} {
			r.want(t, 3, "")
		}
		if a, b := keys(with.receipt.raw), keys(without.receipt.raw); !slices.Equal(a, b) {
			t.Errorf("%v: keys\n%v\n%v", flags, a, b)
		}
		if a, b := keys(user.receipt.raw), keys(without.receipt.raw); !slices.Equal(a, b) {
			t.Errorf("%v: keys of a user's\n%v\n%v", flags, a, b)
		}
		if a, b := fmt.Sprintf("%+v", with.receipt.Layers), fmt.Sprintf("%+v", without.receipt.Layers); a != b {
			t.Errorf("%v: layers\n%s\n%s", flags, a, b)
		}
		for i, l := range user.receipt.Layers {
			w := without.receipt.Layers[i]
			if l.Layer != w.Layer || l.Asked != w.Asked || (l.Layer == "limits" || l.Layer == "egress") && (l.By != w.By || l.Applied != w.Applied || l.Verified != w.Verified) {
				t.Errorf("%v: a user's %+v, alone %+v", flags, l, w)
			}
		}
		if with.receipt.Usage.CPU < 0 || (with.receipt.Usage.RSS < 0) != (without.receipt.Usage.RSS < 0) || (with.receipt.Usage.Pids < 0) != (without.receipt.Usage.Pids < 0) {
			t.Errorf("%v: usage %+v, alone %+v", flags, with.receipt.Usage, without.receipt.Usage)
		}
	}
}

// keys lists the keys of an object and of those in it.
func keys(m map[string]any) []string {
	var out []string
	for k, v := range m {
		out = append(out, k)
		if sub, ok := v.(map[string]any); ok {
			for _, s := range keys(sub) {
				out = append(out, k+"."+s)
			}
		}
	}
	return slices.Sorted(slices.Values(out))
}

// The stored receipt is 0600, and read by whom it concerns. K-013
func TestReceiptsKept(t *testing.T) {
	b := serve(t)
	c := as(t, b, nobody)
	r := c.told(t, []string{"--pids", "50"}, "exit", "4")
	r.want(t, 4, "")
	files, err := os.ReadDir(b.home + "/runner/receipts")
	must(t, err)
	if len(files) != 1 || files[0].Name() != r.receipt.Run+".json" {
		t.Fatalf("receipts: %v, the run was %s", files, r.receipt.Run)
	}
	st, err := files[0].Info()
	must(t, err)
	dir, err := os.Stat(b.home + "/runner/receipts")
	must(t, err)
	if st.Mode() != 0o600 || dir.Mode().Perm() != 0o700 || st.Sys() == nil {
		t.Errorf("modes %v, %v", st.Mode(), dir.Mode())
	}
	for _, uid := range []int{0, nobody} {
		got := b.asked(t, uid, "receipt", r.receipt.Run)
		if !strings.Contains(got, `"code":4`) || !strings.Contains(got, "applied by caller: ") || !strings.Contains(got, r.receipt.Run) {
			t.Errorf("uid %d: %s", uid, got)
		}
	}
	if theirs, none := b.asked(t, 2001, "receipt", r.receipt.Run), b.asked(t, 2001, "receipt", "01J8ZC5T4N7Q2R9V0W1X3Y5Z6A"); theirs != none || !strings.HasPrefix(theirs, "refused: ") {
		t.Errorf("another user: %q, of none %q", theirs, none)
	}
	if got := b.asked(t, 2001, "metrics"); !strings.HasPrefix(got, "refused: ") {
		t.Errorf("metrics for a user: %s", got)
	}
	if got := b.asked(t, 0, "metrics"); !strings.Contains(got, "lockbox_runs_total 1\n") {
		t.Errorf("metrics: %s", got)
	}
}

// Two users: neither sees nor ends the other's run. K-013
func TestTwoUsers(t *testing.T) {
	b := serve(t)
	c := as(t, b, nobody)
	x := c.command([]string{"--pids", "50"}, c.in("ready", "60000")...)
	out, err := x.StdoutPipe()
	must(t, err)
	must(t, x.Start())
	defer x.Process.Kill()
	_, err = out.Read(make([]byte, 16))
	must(t, err)
	f := strings.Fields(b.asked(t, nobody, "ps"))
	if len(f) != 3 || f[1] != fmt.Sprint(nobody) || f[2] != "running" {
		t.Fatalf("its own run: %q", f)
	}
	if got := b.asked(t, 2001, "ps"); got != "" {
		t.Errorf("another user sees %q", got)
	}
	if got := b.asked(t, 2001, "kill", f[0]); !strings.HasPrefix(got, "refused: ") {
		t.Errorf("another user's kill: %s", got)
	}
	if got := b.asked(t, nobody, "kill", f[0]); got != "served" {
		t.Errorf("its own: %s", got)
	}
	x.Wait()
	if got := code(x.ProcessState); got != 137 {
		t.Errorf("code %d", got)
	}
	c.clean(t)
}

// Exit codes and signals are those of a run without the service.
func TestCodes(t *testing.T) {
	b := serve(t)
	for _, uid := range []int{0, nobody} {
		c := as(t, b, uid)
		limit := []string{"--pids", "100"}
		c.told(t, limit, "exit", "0").want(t, 0, "")
		c.told(t, limit, "exit", "77").want(t, 77, "")
		c.told(t, limit, "kill-self", "15").want(t, 143, "")
		c.told(t, append(limit, "--timeout", "300ms"), "sleep", "60000").want(t, 124, "", "the wall limit of 300ms passed")
		c.told(t, append(limit, "--output-limit", "4KiB"), "spew", "10000000").want(t, 137, "", "the output limit of 4KiB was reached")
		must(t, os.WriteFile(c.home+"/text", nil, 0o755))
		finish(t, c.command(limit, "/bin/no-such-program"), "").want(t, 127, "", "lockbox: ")
		r := finish(t, c.command(limit, c.in("copy")...), strings.Repeat("x", 1<<20))
		r.want(t, 0, "", "copied 1048576")
		c.clean(t)

		x := c.command(limit, c.in("count", "200")...)
		out, err := x.StdoutPipe()
		must(t, err)
		must(t, x.Start())
		got := ""
		read := func(word string) {
			for b := make([]byte, 256); !strings.Contains(got, word); {
				n, err := out.Read(b)
				if got += string(b[:n]); err != nil {
					t.Fatalf("want %q, got %q", word, got)
				}
			}
		}
		read("ready")
		for _, s := range []unix.Signal{unix.SIGUSR1, unix.SIGHUP} {
			x.Process.Signal(s)
			read(unix.SignalName(s))
		}
		x.Process.Signal(unix.SIGTERM)
		read("int 0 term 1")
		x.Wait()
		if code(x.ProcessState) != 5 {
			t.Errorf("code %d", code(x.ProcessState))
		}
		c.clean(t)
	}
}

// Ctrl-Z, fg, a window's size and Ctrl-C, through the service. K-026
func TestJobControl(t *testing.T) {
	b := serve(t)
	for _, uid := range []int{0, nobody} {
		c := as(t, b, uid)
		p := onPTY(t, c.underShell(c.command([]string{"--tty", "--pids", "100"}, c.in("count", "300")...)))
		p.expect("ready")
		must(t, unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
		p.expect("window 33 77")
		p.send("\x1a")
		p.expect("job stopped SIGTSTP")
		p.send("fg\n")
		time.Sleep(100 * time.Millisecond)
		p.send("\x03")
		p.expect("int 1 term 0")
		p.expect("job ended 5 false")
		p.end()
		c.clean(t)
	}
}

// 300 runs leave the service as it was. K-018
func TestManyRuns(t *testing.T) {
	b := serve(t)
	c, u := as(t, b, 0), as(t, b, nobody)
	kinds := []struct {
		c     caller
		flags []string
		cmd   []string
		code  int
	}{
		{u, []string{"--pids", "50"}, []string{"/bin/true"}, 0},
		{c, []string{"--net", "direct"}, c.in("connect", "192.0.2.1:80", "1"), 0},
		{u, []string{"--memory", "1GiB"}, []string{"/bin/sh", "-c", "kill -9 $$"}, 137},
		{u, []string{"--pids", "50", "--receipt", "/dev/null"}, []string{"/bin/sh", "-c", "exit 3"}, 3},
	}
	many := func(n int) {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for j := range n / 4 {
					k := kinds[(i+j)%len(kinds)]
					if r := finish(t, k.c.command(k.flags, k.cmd...), ""); r.code != k.code {
						t.Errorf("%v: %+v", k.flags, r)
						return
					}
				}
			})
		}
		wg.Wait()
		c.clean(t)
	}
	many(100)
	fds, threads, rss := b.usage(t)
	many(200)
	var f, th, rs int
	if !eventually(3*time.Second, func() bool { f, th, rs = b.usage(t); return f <= fds }) || th > threads+4 || rs > rss+8192 {
		t.Errorf("descriptors %d then %d, threads %d then %d, KiB %d then %d", fds, f, threads, th, rss, rs)
	}
	for _, dir := range []string{b.home + "/run/slots"} {
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil && !os.IsNotExist(err) {
			t.Errorf("%s: %v %v", dir, left, err)
		}
	}
	n := 0
	must(t, filepath.WalkDir(b.home+"/runner/receipts", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	}))
	if n != 300 {
		t.Errorf("%d receipts of 300 runs", n)
	}
	if got := b.asked(t, 0, "metrics"); !strings.Contains(got, "lockbox_runs_total 300\n") || !strings.Contains(got, "lockbox_runs_live 0\n") {
		t.Errorf("metrics: %s", got)
	}

}
