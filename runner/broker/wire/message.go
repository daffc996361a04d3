package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"lockbox/profiles"
	"lockbox/runner"
)

// version of the protocol. Both ends come from one release; another Version is
// refused with a hint to restart the service.
const Version = 1

// Request is the envelope of every message to the broker.
type Request struct {
	V    int             `json:"v"`
	Req  string          `json:"req"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Reply is the envelope of every answer.
type Reply struct {
	V     int             `json:"v"`
	Error string          `json:"error,omitempty"`
	Hint  string          `json:"hint,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// PrepareArgs ask for a cgroup.
type PrepareArgs struct {
	Run     string         `json:"run"` // ULID, chosen by the supervisor
	Profile string         `json:"profile"`
	Argv    []string       `json:"argv"` // secrets masked
	Memory  int64          `json:"memory"`
	Pids    int64          `json:"pids"`
	CPU     float64        `json:"cpu"`
	Egress  *runner.Egress `json:"egress,omitempty"`
}

type PrepareBody struct {
	By string `json:"by"`
}

// ResolveArgs ask for the addresses of host names.
type ResolveArgs struct {
	Hosts []string `json:"hosts"`
}

type ResolveBody struct {
	Hosts map[string][]netip.Addr `json:"hosts"`
}

// FinishArgs hand the receipt over.
type FinishArgs struct {
	Receipt json.RawMessage `json:"receipt"`
}

// RunArgs name a run.
type RunArgs struct {
	Run string `json:"run"`
}

// Info is one line of `lockbox ps`.
type Info struct {
	Run     string    `json:"run"`
	UID     int       `json:"uid"`
	Profile string    `json:"profile"`
	Argv    []string  `json:"argv"`
	PID     int       `json:"pid"`   // of the run's first process, 0 before it starts
	State   string    `json:"state"` // prepared, running
	Started time.Time `json:"started"`
	Memory  int64     `json:"memory"`
	Pids    int64     `json:"pids"`
	CPU     float64   `json:"cpu"`
	Net     string    `json:"net"` // none or direct
}

// maxDepth bounds the nesting of a message.
const maxDepth = 16

// Decode reads one JSON value strictly: unknown keys, trailing data and deep
// nesting are errors.
func Decode(data []byte, into any) error {
	if err := depth(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the message")
	}
	return nil
}

func depth(data []byte) error {
	n, inString, escaped := 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if n++; n > maxDepth {
				return fmt.Errorf("nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			n--
		}
	}
	return nil
}

// Check refuses what no honest supervisor sends.
func (a *PrepareArgs) Check() error {
	switch {
	case !ValidRun(a.Run):
		return fmt.Errorf("bad run id %q", Clip(a.Run))
	case len(a.Profile) > 256:
		return errors.New("profile name longer than 256 bytes")
	case len(a.Argv) > 4096:
		return errors.New("more than 4096 arguments")
	case a.Memory < 0 || a.Pids < 0 || a.CPU < 0 || a.CPU > 1<<16:
		return errors.New("a limit out of range")
	case a.Egress != nil:
		return checkEgress(a.Egress)
	}
	return nil
}

func checkEgress(e *runner.Egress) error {
	if len(e.Rules) > 20000 || len(e.Listen) > 64 || len(e.Unix) > 1024 || len(e.Writable) > 1024 || len(e.Canaries) > 8 {
		return errors.New("too many egress rules")
	}
	// That the run has a network namespace of its own is the engine's to say: its
	// entry refuses less.
	if e.OwnNamespace {
		return errors.New("an egress entry for a namespace of the run's own")
	}
	for _, r := range e.Rules {
		if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() {
			return errors.New("an egress rule without a prefix")
		}
	}
	for _, list := range [][]string{e.Unix, e.Writable, e.Canaries} {
		for _, path := range list {
			if len(path) > 4096 {
				return errors.New("a path longer than 4096 bytes")
			}
		}
	}
	return nil
}

// Limits are the profile's limits that a cgroup holds.
func (a *PrepareArgs) Limits() profiles.Limits {
	return profiles.Limits{Memory: a.Memory, Pids: a.Pids, CPU: a.CPU}
}

// ValidRun: a ULID. What else looks for the cgroups of runs goes by the same rule.
func ValidRun(id string) bool { return runner.ValidID(id) }

// maxShown bounds the arguments that are kept of a run, in bytes.
const maxShown = 1024

// Shown is an argument list as it is kept and listed: its beginning.
func Shown(argv []string) []string {
	out, left := []string{}, maxShown
	for _, a := range argv {
		if left -= len(a) + 8; left < 0 { // 8: quotes, comma, the slice itself
			return append(out, "…")
		}
		out = append(out, a)
	}
	return out
}

// Clip shortens what is shown of hostile input.
func Clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
