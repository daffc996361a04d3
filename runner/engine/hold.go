package engine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"lockbox/runner"
	"lockbox/runner/egress"
	"lockbox/runner/slot"
)

// ringSize is the ring of one run's deny events, in bytes. What does not fit is
// counted as lost; the counters stay exact.
const ringSize = 64 << 10

// hold is the cgroup of one run with its egress entry.
type hold struct {
	slot   *slot.Slot
	by     []string
	set    *egress.Set // nil without egress programs
	late   string      // bpffs in which an entry may appear while the run lives
	events *egress.Events

	wg   sync.WaitGroup
	mu   sync.Mutex
	seen map[denialKey]*runner.Denial
	// ignore counts down the start's own tries, by target; ignored by hook.
	ignore  map[string]int
	ignored map[string]uint64
	once    sync.Once
	err     error
}

type denialKey struct{ op, target, rule string }

func (h *hold) FD() int        { return h.slot.FD() }
func (h *hold) TaskFDs() []int { return h.slot.TaskFDs() }
func (h *hold) Kill() error    { return h.slot.Kill() }
func (h *hold) Moves() bool    { return false }

// Adopt moves a process that is there already, with all its threads.
func (h *hold) Adopt(_, pid int) error { return h.slot.Add(pid) }

// Finish: the caller keeps the receipt.
func (h *hold) Finish(*runner.Receipt) error { return nil }
func (h *hold) By() string                   { return strings.Join(h.by, ", ") }

// collect reads the run's deny events until Close.
func (h *hold) collect() {
	h.wg.Go(func() {
		for {
			ev, err := h.events.Read(time.Time{})
			if err != nil {
				return
			}
			h.add(ev)
		}
	})
}

func (h *hold) add(ev egress.Event) {
	op, target := describe(ev)
	k := denialKey{op, target, ruleOf(ev)}
	h.mu.Lock()
	defer h.mu.Unlock()
	by := "cgroup:" + ev.Hook.String()
	if h.ignore[target] > 0 {
		h.ignore[target]--
		h.ignored[by]++
		return
	}
	d := h.seen[k]
	if d == nil {
		d = &runner.Denial{Kind: "net", Op: op, Target: target, By: by, Rule: k.rule, Exe: exe(ev), Hint: hint(ev)}
		h.seen[k] = d
	}
	d.Count++
}

// exe is the program behind an event as far as it can still be told.
func exe(ev egress.Event) string {
	if ev.PID != 0 {
		if p, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", ev.PID)); err == nil {
			return p
		}
	}
	return ev.Comm
}

// Counted reads the counters while the cgroup exists. The exact count of a hook
// and reason stands even where its events were lost.
func (h *hold) Counted() (runner.Counted, error) {
	c := runner.Counted{CPUms: -1, MaxRSS: -1, PidsPeak: -1}
	u, err := h.slot.Usage()
	if err == nil {
		c.CPUms, c.MaxRSS, c.PidsPeak = u.CPUMillis, u.MemoryPeak, u.PidsPeak
	}
	cause, cerr := h.slot.Cause()
	c.Cause = cause
	err = errors.Join(err, cerr)
	if h.set == nil {
		return c, err
	}
	c.Egress = true
	counters, lost, nerr := h.set.Counters(h.slot.ID())
	c.Lost = lost
	h.drain(counters, lost)
	h.mu.Lock()
	defer h.mu.Unlock()
	c.Denials = merge(h.seen, counters, h.ignored)
	return c, errors.Join(err, nerr)
}

// drain waits until the reader has taken what is in the ring: the run is dead,
// so nothing is added. What is counted and neither seen nor lost is on its way;
// an event that never comes is waited for a moment, and its count stands.
func (h *hold) drain(counters []egress.Counter, lost uint64) {
	want := uint64(0)
	for _, k := range counters {
		want += k.N
	}
	for end := time.Now().Add(drainTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		h.mu.Lock()
		n := lost
		for _, d := range h.seen {
			n += d.Count
		}
		for _, k := range h.ignored {
			n += k
		}
		h.mu.Unlock()
		if n >= want {
			return
		}
	}
}

// drainTime bounds the wait for events that the kernel has counted.
const drainTime = 500 * time.Millisecond

// merge lists what was seen, and what was counted beyond it.
func merge(seen map[denialKey]*runner.Denial, counters []egress.Counter, ignored map[string]uint64) []runner.Denial {
	out := make([]runner.Denial, 0, len(seen))
	had := maps.Clone(ignored)
	for _, d := range seen {
		out = append(out, *d)
		had[d.By] += d.Count
	}
	total := map[string]uint64{}
	for _, k := range counters {
		total["cgroup:"+k.Hook.String()] += k.N
	}
	for by, n := range total {
		if n > had[by] {
			out = append(out, runner.Denial{Kind: "net", Op: opOf(by), Target: "", Count: n - had[by], By: by, Rule: "default", Hint: "their destinations were not recorded: the event ring was full"})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Op != b.Op {
			return a.Op < b.Op
		}
		return a.Target < b.Target
	})
	return out
}

// Close ends and removes everything of the run.
func (h *hold) Close() error {
	h.once.Do(func() {
		var errs []error
		if h.events != nil {
			errs = append(errs, h.events.Close())
			h.wg.Wait()
		}
		// Kill, then the entry, then the directory: a run never outlives its policy.
		errs = append(errs, h.slot.Kill())
		if h.set != nil {
			errs = append(errs, h.set.Remove(h.slot.ID()), h.set.Close())
		} else {
			errs = append(errs, h.removeLate())
		}
		errs = append(errs, h.slot.Close())
		h.err = errors.Join(errs...)
	})
	return h.err
}

// ruleOf is the rule that refused.
func ruleOf(ev egress.Event) string {
	if id := egress.DenialID(ev); id != "" {
		return id
	}
	return "default"
}
