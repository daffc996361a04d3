package runner

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/sandbox"
)

// Receipt says how a run went and what was enforced. Its JSON is a contract.
type Receipt struct {
	V             int             `json:"v"`
	Run           string          `json:"run"`
	Profile       string          `json:"profile"`
	ProfileSHA256 string          `json:"profile_sha256"`
	Argv          []string        `json:"argv"`
	Client        string          `json:"client"`
	Sender        string          `json:"sender"`
	Exit          ReceiptExit     `json:"exit"`
	Started       time.Time       `json:"started"`
	MS            int64           `json:"ms"`
	Usage         Usage           `json:"usage"`
	Layers        []sandbox.Layer `json:"layers"`
	Weaker        []string        `json:"weaker"` // features given up by --weaker, none as []
	Denials       []Denial        `json:"denials"`
	DenialsLost   uint64          `json:"denials_lost"`
	// Complete is false while any kind of denial is only observed. Those of the
	// kinds net and limit are always counted exactly; files and system calls not,
	// see Notes.
	Complete bool     `json:"complete"`
	Notes    []string `json:"notes"`
	Gate     Gate     `json:"gate"`

	limits profiles.Limits
}

// ReceiptExit is how the command ended.
type ReceiptExit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal"` // "SIGKILL"; "" when it exited
	Cause  string `json:"cause"`  // "" timeout memory pids output killed
}

// Usage is what a run used. −1 means the host cannot tell.
type Usage struct {
	CPUms    int64 `json:"cpu_ms"`
	MaxRSS   int64 `json:"max_rss_bytes"`
	PidsPeak int64 `json:"pids_peak"`
}

// Denial is one thing that was refused, and how often.
type Denial struct {
	Kind   string `json:"kind"`
	Op     string `json:"op"`
	Target string `json:"target"`
	Count  uint64 `json:"count"`
	By     string `json:"by"`
	Rule   string `json:"rule"`
	Exe    string `json:"exe"`
	Hint   string `json:"hint"`
}

// Gate counts the gate's decisions.
type Gate struct {
	Free int `json:"free"`
	Ask  int `json:"ask"`
	Deny int `json:"deny"`
}

// Exit codes of `lockbox run` beside the command's own.
const (
	CodeTimeout  = 124
	CodeLockbox  = 125
	CodeNotExec  = 126
	CodeNotFound = 127
)

// ExitCode is the exit status that tells the caller how the run ended.
func (r *Receipt) ExitCode() int {
	switch r.Exit.Cause {
	case "timeout":
		return CodeTimeout
	case "memory", "output":
		return 128 + int(syscall.SIGKILL)
	}
	if r.Exit.Signal != "" {
		return 128 + int(unix.SignalNum(r.Exit.Signal))
	}
	return r.Exit.Code
}

// Lines says on stderr what the command itself could not say.
func (r *Receipt) Lines() []string {
	var out []string
	switch r.Exit.Cause {
	case "timeout":
		out = append(out, fmt.Sprintf("killed: the wall limit of %s passed", r.limits.Wall))
	case "memory":
		out = append(out, fmt.Sprintf("killed: the memory limit of %s was reached", profiles.FormatSize(r.limits.Memory)))
	case "pids":
		out = append(out, fmt.Sprintf("the pids limit of %d was reached: a fork was refused", r.limits.Pids))
	case "output":
		out = append(out, fmt.Sprintf("killed: the output limit of %s was reached", profiles.FormatSize(r.limits.Output)))
	case "killed":
		why := "the run was ended"
		if len(r.Notes) > 0 { // the first says why; the others are not about the end
			why = r.Notes[0]
		}
		out = append(out, "killed: "+why)
	}
	return out
}

// receipt begins the receipt of a run.
func (r *Run) receipt(id string) *Receipt {
	p := r.spec.Sealed.Profile()
	return &Receipt{
		V: 1, Run: id, Profile: p.Name, ProfileSHA256: p.Hash(), Argv: mask(r.spec.Argv, r.spec.Masks),
		Client: r.spec.Client, Sender: r.spec.Sender, Started: time.Now().UTC(), Layers: r.plan.Layers,
		Weaker: append([]string{}, r.plan.Weaker...), Denials: []Denial{}, Notes: []string{}, limits: p.Limits,
		Usage: Usage{CPUms: -1, MaxRSS: -1, PidsPeak: -1},
	}
}

// mask replaces secret values.
func mask(in, secrets []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		for _, m := range secrets {
			if m != "" {
				s = strings.ReplaceAll(s, m, "***")
			}
		}
		out[i] = s
	}
	return out
}

// ended writes the command's end into the receipt.
func (r *Receipt) ended(x sandbox.Exit, cause string) {
	r.MS = time.Since(r.Started).Milliseconds()
	r.Exit.Code, r.Exit.Cause = x.Code, cause
	if x.Signal != 0 {
		r.Exit.Signal = unix.SignalName(x.Signal)
		r.Exit.Code = 128 + int(x.Signal)
	}
	if r.Usage.CPUms < 0 {
		r.Usage.CPUms = (x.Usage.Utime.Nano() + x.Usage.Stime.Nano()) / int64(time.Millisecond)
	}
	if r.Usage.MaxRSS < 0 {
		r.Usage.MaxRSS = x.Usage.Maxrss * 1024 // getrusage(2): KiB
	}
}
