package runner

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"lockbox/sandbox"
)

// grace is how long a run may take to end itself after its wall limit's SIGTERM.
const grace = 2 * time.Second

// attend is the supervisor's loop beside the wait: signals to pass on, the wall
// limit, the watched carve-outs, the caller's cancellation.
func (r *Run) attend(ctx context.Context, p *sandbox.Process, sig *signals, w *watcher, out *output, end *ending, done <-chan struct{}) {
	var wall, hard <-chan time.Time
	if d := r.limits().Wall; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		wall = t.C
	}
	for {
		select {
		case <-done:
			return
		case s := <-sig.c:
			p.Signal(s.(syscall.Signal))
		case <-ctx.Done():
			end.end("killed", "the caller gave up: "+context.Cause(ctx).Error())
			return
		case <-wall:
			end.set("timeout", "")
			p.Signal(syscall.SIGTERM)
			t := time.NewTimer(grace)
			defer t.Stop()
			wall, hard = nil, t.C
		case <-hard:
			end.kill()
			hard = nil
		case why := <-w.c:
			end.end("killed", why)
		}
	}
}

// signals are the ones that the supervisor passes on.
type signals struct {
	c     chan os.Signal
	taken chan os.Signal // caught and dropped
}

// listen takes over the signals to pass on. On a shared terminal the kernel
// itself sends the keyboard's signals to the whole foreground group, so those
// are not passed on a second time.
func listen(tty bool) *signals {
	s := &signals{c: make(chan os.Signal, 16), taken: make(chan os.Signal, 1)}
	list := []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
	// Go dies of SIGPIPE on descriptors 1 and 2 unless somebody catches it, and the
	// run's directory and cgroup would stay: a reader of the copied output that
	// went away is told to the command instead.
	taken := []os.Signal{syscall.SIGPIPE}
	keyboard := []os.Signal{syscall.SIGINT, syscall.SIGQUIT}
	if tty {
		// Caught, not ignored: an ignored signal would stay ignored in the command.
		taken = append(taken, keyboard...)
	} else {
		list = append(list, keyboard...)
		list = append(list, syscall.SIGWINCH)
	}
	notify(s.taken, taken)
	notify(s.c, list)
	return s
}

// notify leaves out what the caller ignores (nohup, a shell's background job):
// listening would end that, and the command would not inherit it.
func notify(c chan os.Signal, list []os.Signal) {
	for _, s := range list {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

func (s *signals) stop() {
	signal.Stop(s.c)
	signal.Stop(s.taken)
}
