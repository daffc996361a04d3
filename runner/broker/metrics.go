package broker

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"lockbox/runner"
	"lockbox/runner/broker/wire"
)

// stats are what /metrics-like text is made of.
type stats struct {
	events  map[string]uint64 // by what
	denials map[denialLabel]uint64
	lost    uint64
	runs_   uint64
	seconds float64
}

// denialLabel is of low cardinality: never a host, a path or a user.
type denialLabel struct{ kind, by, profile string }

func (s *Server) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == nil {
		s.events = map[string]uint64{}
	}
	s.events[what]++
}

// ended adds a finished run to the counters, by what the broker itself knows.
func (s *Server) ended(h *held, c runner.Counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denials == nil {
		s.denials = map[denialLabel]uint64{}
	}
	s.runs_++
	s.seconds += time.Since(h.info.Started).Seconds()
	s.lost += c.Lost
	for _, d := range c.Denials {
		l := denialLabel{d.Kind, d.By, label(h.info.Profile)}
		if len(s.denials) >= maxLabels && s.denials[l] == 0 {
			l.profile = "other"
		}
		s.denials[l] += d.Count
	}
}

// maxLabels bounds the profiles that are told apart.
const maxLabels = 1000

// label is a profile's name where it is one; callers may send anything.
func label(name string) string {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+ ", r)) {
			return "other"
		}
	}
	return wire.Clip(name)
}

// metrics is Prometheus text.
func (s *session) metrics(wire.Request, []int) (any, error) {
	srv := s.srv
	srv.mu.Lock()
	defer srv.mu.Unlock()
	var b strings.Builder
	gauge := func(name, help, kind string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	gauge("lockbox_runs_total", "Runs that ended.", "counter")
	fmt.Fprintf(&b, "lockbox_runs_total %d\n", srv.runs_)
	gauge("lockbox_run_seconds", "Time of all ended runs together.", "counter")
	fmt.Fprintf(&b, "lockbox_run_seconds %g\n", srv.seconds)
	gauge("lockbox_runs_live", "Runs held now.", "gauge")
	fmt.Fprintf(&b, "lockbox_runs_live %d\n", len(srv.runs))
	gauge("lockbox_events_lost_total", "Deny events that found their ring full.", "counter")
	fmt.Fprintf(&b, "lockbox_events_lost_total %d\n", srv.lost)
	gauge("lockbox_requests_refused_total", "Callers and requests that were refused.", "counter")
	fmt.Fprintf(&b, "lockbox_requests_refused_total %d\n", srv.events["refused"]+srv.events["denied"])
	gauge("lockbox_denials_total", "Denials of ended runs.", "counter")
	labels := make([]denialLabel, 0, len(srv.denials))
	for l := range srv.denials {
		labels = append(labels, l)
	}
	sort.Slice(labels, func(i, j int) bool { return fmt.Sprint(labels[i]) < fmt.Sprint(labels[j]) })
	for _, l := range labels {
		fmt.Fprintf(&b, "lockbox_denials_total{kind=%q,by=%q,profile=%q} %d\n", l.kind, l.by, l.profile, srv.denials[l])
	}
	return b.String(), nil
}
