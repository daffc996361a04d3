package sandbox

import (
	"fmt"
	"strings"

	"lockbox/profiles"
)

// Layer is one line of a receipt: what the profile asks of a layer, what applied
// it, and whether the child itself tried it under this very plan and was denied.
type Layer struct {
	Layer    string `json:"layer"` // files syscalls egress unix limits processes env fds
	By       string `json:"by"`
	Asked    bool   `json:"asked"`
	Applied  bool   `json:"applied"`
	Verified bool   `json:"verified"`
	Note     string `json:"note"`
}

// Options say what one run adds to its profile.
type Options struct {
	Argv []string // the command's argv
	Path string   // the program as execve gets it
	Env  []string // the complete environment
	Dir  string   // working directory inside the run
	TTY  bool     // keep the caller's session and terminal
	// Terminal is the host path of the caller's terminal, bound at /dev/console;
	// "" for none.
	Terminal string
	// Attended: a supervisor stays (limits, receipt, a user namespace). It never
	// becomes an exec in place.
	Attended bool
	Weaker   map[string]bool
	TmpDir   string // per-run directory on disk for /tmp; "" is a sized tmpfs
	Hosts    []byte // contents of a private /etc/hosts; nil keeps the host's
	Links    []Link // symlinks that the rules' paths go through
	// Egress: the cgroup's BPF programs hold the network, so there is no network
	// namespace of the run's own.
	Egress bool
}

// Plan is a profile compiled for a host: an ordered list of steps, each naming
// its system calls. Making one touches nothing.
type Plan struct {
	Layers []Layer
	Notes  []string
	Weaker []string // features that --weaker gave up on this host

	// InPlace: the calling process can become the command; nothing has to be
	// looked after.
	InPlace bool
	// NeedsSlot: a cgroup has to hold the run. NeedsEgress: BPF programs too.
	NeedsSlot, NeedsEgress bool
	// RLimits that stand in for a cgroup, by resource name.
	Watches []Watch

	namespaces uintptr
	userNS     bool
	pidNS      bool
	netNS      bool
	newSession bool
	mounts     bool
	steps      []planStep

	host   *Host
	opts   Options
	layout *layout
	limits profiles.Limits
	abi    int
	// without leaves system calls out, for tests of what then notices; nil in
	// every real start.
	without func(call, what string) bool
}

// planStep is one line of the plan and how it is laid out in memory.
type planStep struct {
	call string
	what string
	emit func(e *emitter)
}

// String is the plan for people: layers first, then the steps in the order in
// which the child takes them.
func (p *Plan) String() string {
	var b strings.Builder
	how := "child in the caller's session"
	switch {
	case p.InPlace:
		how = "exec in place"
	case p.newSession:
		how = "child in a session of its own"
	}
	fmt.Fprintf(&b, "start: %s", how)
	if ns := p.namespaceNames(); ns != "" {
		fmt.Fprintf(&b, "; new namespaces: %s", ns)
	}
	b.WriteString("\nlayers:\n")
	for _, l := range p.Layers {
		asked := "asked"
		if !l.Asked {
			asked = "not asked"
		}
		by := l.By
		if by == "" {
			by = "-"
		}
		fmt.Fprintf(&b, "  %-10s %-9s %s", l.Layer, asked, by)
		if l.Note != "" {
			fmt.Fprintf(&b, "  (%s)", l.Note)
		}
		b.WriteByte('\n')
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	b.WriteString("steps:\n")
	for i, s := range p.steps {
		fmt.Fprintf(&b, "%4d  %-18s %s\n", i, s.call, s.what)
	}
	return b.String()
}

// UseTmp gives a plan that starts a child its directory on disk for /tmp and
// /var/tmp (Options.TmpDir). Nothing else of the plan depends on it.
func (p *Plan) UseTmp(dir string) { p.opts.TmpDir = dir }

// OwnTree reports whether the run has a file tree of its own. Without one (see
// --weaker) /tmp is the host's and closed, and TMPDIR has to name Options.TmpDir.
func (p *Plan) OwnTree() bool { return p.mounts }

// layer returns the named layer for changing it.
func (p *Plan) layer(name string) *Layer {
	for i := range p.Layers {
		if p.Layers[i].Layer == name {
			return &p.Layers[i]
		}
	}
	panic("BUG: no layer " + name)
}
