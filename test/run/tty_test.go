package run

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/test/needs"
)

// ways are how a run can have the terminal: the caller's process itself (root,
// nothing to look after) or a child of it.
func (c caller) ways() map[string][]string {
	return map[string][]string{
		"plain":      {"--tty"},
		"supervised": {"--tty", "--receipt", c.home + "/r"},
		"no tty":     {"--no-tty", "--receipt", c.home + "/r"},
	}
}

// The keyboard's interrupt arrives once, whatever is between.
func TestInterrupt(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for name, flags := range c.ways() {
			t.Run(name, func(t *testing.T) {
				p := onPTY(t, c.underShell(c.command(flags, c.in("count", "300")...)))
				p.expect("ready")
				p.send("\x03")
				p.expect("int 1 term 0")
				p.expect("job ended 5 false")
				p.end()
				c.clean(t)
			})
		}
	})
}

// Ctrl-Z stops the job, fg goes on, and the foreground is the job's own at the end.
func TestStopAndContinue(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for _, name := range []string{"plain", "supervised"} {
			t.Run(name, func(t *testing.T) {
				p := onPTY(t, c.underShell(c.command(c.ways()[name], c.in("count", "300")...)))
				p.expect("ready")
				p.send("\x1a")
				p.expect("job stopped SIGTSTP")
				p.send("fg\n")
				// It runs again and has the terminal: the interrupt reaches it.
				time.Sleep(100 * time.Millisecond)
				p.send("\x03")
				p.expect("int 1 term 0")
				p.expect("job ended 5 false")
				p.end()
				c.clean(t)
			})
		}
	})
}

// A command that took the terminal and was killed: the caller's group has it again.
func TestForegroundAgain(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		p := onPTY(t, c.underShell(c.command(c.ways()["supervised"], c.in("grab")...)))
		p.expect("grabbed")
		p.expect("job ended 137 false")
		p.end()
		if !strings.Contains(p.text(), "foreground is the job's true") {
			t.Errorf("the terminal was not given back:\n%s", p.text())
		}
		c.clean(t)
	})
}

func TestWindowSize(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for name, flags := range c.ways() {
			t.Run(name, func(t *testing.T) {
				p := onPTY(t, c.underShell(c.command(flags, c.in("count", "10")...)))
				p.expect("ready")
				must(t, unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
				p.expect("winch")
				if name != "no tty" {
					p.expect("window 33 77")
				}
				p.send("\x03")
				p.expect("job ended 5 false")
				p.end()
			})
		}
	})
}

// Without the terminal there is no /dev/tty, and nobody types for the caller.
// With it, typing stays closed.
func TestTerminalClosed(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		with := onPTY(t, c.command([]string{"--tty"}, c.in("tty")...))
		with.end()
		for _, w := range []string{"open ok", "sti EPERM", "foreground true"} {
			if !strings.Contains(with.text(), w) {
				t.Errorf("--tty: want %q in\n%s", w, with.text())
			}
		}
		for _, more := range [][]string{nil, {"--receipt", c.home + "/r"}} {
			p := onPTY(t, c.command(append([]string{"--no-tty"}, more...), c.in("tty")...))
			p.end()
			for _, w := range []string{"open ENOENT", "sti EPERM", "leader ", "foreground false"} {
				if !strings.Contains(p.text(), w) {
					t.Errorf("--no-tty %v: want %q in\n%s", more, w, p.text())
				}
			}
		}
	})
}

// Signals sent to lockbox reach the command, once, and its code comes back.
func TestSignalsPassedOn(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for _, flags := range [][]string{nil, {"--receipt", c.home + "/r"}} {
			x := c.command(flags, c.in("count", "200")...)
			out, err := x.StdoutPipe()
			must(t, err)
			must(t, x.Start())
			got := strings.Builder{}
			read := func(word string) {
				b := make([]byte, 256)
				for !strings.Contains(got.String(), word) {
					n, err := out.Read(b)
					got.Write(b[:n])
					if err != nil {
						t.Fatalf("want %q, got %q", word, got.String())
					}
				}
			}
			read("ready")
			x.Process.Signal(unix.SIGUSR1)
			read("SIGUSR1")
			x.Process.Signal(unix.SIGHUP)
			read("SIGHUP")
			x.Process.Signal(unix.SIGTERM)
			read("int 0 term 1")
			x.Wait()
			if got := code(x.ProcessState); got != 5 {
				t.Errorf("%v: code %d", flags, got)
			}
			c.clean(t)
		}
	})
}

// nohup: what the caller ignores stays ignored, in the command too.
func TestNohup(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for _, flags := range [][]string{nil, {"--receipt", c.home + "/r"}} {
			x := c.command(flags, c.in("ignored", "1", "2")...)
			y := c.underIgnored(x)
			r := finish(t, y, "")
			r.want(t, 0, "1 true\n2 true\n")
		}
		// The control: without it they are not.
		c.run(t, nil, "ignored", "1", "2").want(t, 0, "1 false\n2 false\n")
	})
}

// TestHostBash is a whole interactive shell under the run.
func TestHostBash(t *testing.T) {
	needs.Command(t, "bash")
	each(t, func(t *testing.T, c caller) {
		for _, name := range []string{"plain", "supervised"} {
			t.Run(name, func(t *testing.T) {
				x := c.command(append(c.ways()[name], "--env", "PS1=$ "), "/bin/bash", "--norc", "-i")
				p := onPTY(t, c.underShell(x))
				p.expect("$ ")
				p.send("sleep 100\n")
				time.Sleep(300 * time.Millisecond)
				p.send("\x1a")
				p.expect("Stopped")
				p.send("bg; jobs; kill %1; wait; echo done-$((40+2))\n")
				p.expect("done-42")
				p.send("sleep 100\n")
				time.Sleep(300 * time.Millisecond)
				p.send("\x03")
				p.send("echo again-$?\n")
				p.expect("again-130")
				p.send("exit 3\n")
				p.expect("job ended 3 false")
				p.end()
				if strings.Contains(p.text(), "no job control") || !strings.Contains(p.text(), "foreground is the job's true") {
					t.Errorf("terminal:\n%s", p.text())
				}
				c.clean(t)
			})
		}
	})
}
