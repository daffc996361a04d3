package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strings"
)

// A work is a real program that must succeed.
type work struct {
	title string
	args  []string // of `lockbox run`
}

// An attempt must fail, and its output must match.
type attempt struct {
	title   string
	flags   []string // of `lockbox run`, beside the preset
	try     []string // arguments of escape.py
	match   string   // regular expression for standard error
	explain []string // arguments of `lockbox explain`; nil where a limit, not a rule, decides
	ok      func() error
}

// show runs everything and returns how much was not as told.
func (s *stage) show() (bad int, err error) {
	fmt.Printf("\n== %s ==\n\nReal programs, each under its preset:\n\n", s.who())
	for _, w := range s.works() {
		n, err := s.showWork(w)
		if err != nil {
			return bad, err
		}
		bad += n
	}
	fmt.Printf("\nA script that tries to get out (work/escape.py, under the preset python):\n\n")
	for _, a := range s.attempts() {
		n, err := s.showAttempt(a)
		if err != nil {
			return bad, err
		}
		bad += n
	}
	return bad, nil
}

func (s *stage) who() string {
	if s.uid == 0 {
		return "root"
	}
	if u, err := user.LookupId(fmt.Sprint(s.uid)); err == nil {
		return fmt.Sprintf("an ordinary user (%s, uid %d)", u.Username, s.uid)
	}
	return fmt.Sprintf("an ordinary user (uid %d)", s.uid)
}

func (s *stage) works() []work {
	workdir := []string{"--workdir", s.path("work")}
	run := func(preset string, more ...string) []string {
		return append(append([]string{"run", "-p", preset}, workdir...), more...)
	}
	clone := s.path("work/lockbox")
	return []work{
		{"git clones a repository", run("git", "--ro", s.path("seed.git"), "--", s.git, "clone", "-q", s.path("seed.git"), clone)},
		{"python runs a test file", run("python", "--", s.python, "test_sum.py")},
		{"node runs a script", run("node", "--", s.node, "sum.js")},
		{"go builds this very project", []string{"run", "-p", "go", "--workdir", clone, "--rx", s.goroot, "--env", "CGO_ENABLED=0",
			"--", s.goTool, "build", "-trimpath", "-buildvcs=false", "-o", clone + "/lockbox.built", "./cmd/lockbox"}},
	}
}

func (s *stage) attempts() []attempt {
	home := s.path("home")
	metadata := attempt{title: "the cloud's metadata address", try: []string{"connect", "169.254.169.254", "80"},
		match: `Network is unreachable`, explain: []string{"net", "169.254.169.254:80"}}
	if s.uid == 0 {
		// With a network of its own choosing the run meets the programs in the kernel, which count.
		metadata.flags = []string{"--net", "direct", "--allow", "192.0.2.0/24:443"}
		metadata.match = `not permitted`
	}
	// Root has cgroups, whose counters name the limit; an ordinary user without a delegated one has limits of the process.
	forks, memory := `Resource temporarily unavailable`, `MemoryError|memory limit`
	if s.uid == 0 {
		forks, memory = `(?s)Resource temporarily unavailable.*lockbox: .*pids`, `lockbox: .*memory limit`
	}
	return []attempt{
		{title: "a private key", try: []string{"read", home + "/.ssh/id_ed25519"}, match: `Permission denied|No such file`,
			explain: []string{"file", home + "/.ssh/id_ed25519", "r"}},
		{title: "the password file", try: []string{"read", "/etc/shadow"}, match: `Permission denied|No such file`,
			explain: []string{"file", "/etc/shadow", "r"}},
		metadata,
		{title: "a Unix socket outside", try: []string{"unix", s.socket}, match: `Permission denied|No such file|not permitted`,
			explain: []string{"file", s.socket, "unix"}},
		{title: "a signal to the process that started it", try: []string{"kill", fmt.Sprint(os.Getpid())}, match: `not permitted|No such process`,
			ok: func() error {
				select {
				case <-s.signalled:
					return fmt.Errorf("the signal arrived")
				default:
					return nil
				}
			}},
		{title: "chmod of a file outside", try: []string{"chmod", home + "/notes.txt"}, match: `Read-only|Permission denied|No such file|not permitted`,
			explain: []string{"file", home + "/notes.txt", "metadata"},
			ok: func() error {
				st, err := os.Stat(home + "/notes.txt")
				if err != nil {
					return err
				}
				if st.Mode().Perm() != 0o600 {
					return fmt.Errorf("the mode is now %v", st.Mode())
				}
				return nil
			}},
		{title: "a fork bomb, under --pids 64", flags: []string{"--pids", "64"}, try: []string{"forks"}, match: forks},
		{title: "a memory bomb, under --memory 256MiB", flags: []string{"--memory", "256MiB"}, try: []string{"memory"}, match: memory},
	}
}

func (s *stage) showWork(w work) (bad int, err error) {
	o, err := s.run(w.args...)
	if err != nil {
		return 0, err
	}
	fmt.Printf("  $ lockbox %s\n", s.short(w.args))
	if o.code != 0 {
		fmt.Printf("    NOT AS TOLD: %s ended with %d\n%s", w.title, o.code, indent(o.stdout+o.stderr))
		return 1, nil
	}
	fmt.Printf("    ok, %s (%d ms)\n", w.title, o.took.Milliseconds())
	return 0, nil
}

func (s *stage) showAttempt(a attempt) (bad int, err error) {
	receipt := s.path("home/receipt.json")
	args := append([]string{"run", "-p", "python", "--workdir", s.path("work"), "--receipt", receipt}, a.flags...)
	args = append(append(args, "--", s.python, "escape.py"), a.try...)
	o, err := s.run(args...)
	if err != nil {
		return 0, err
	}
	fmt.Printf("  %s\n", a.title)
	for line := range strings.Lines(o.stderr) {
		fmt.Printf("    %s\n", s.home(strings.TrimRight(line, "\n")))
	}
	problem := ""
	switch {
	case o.code == 0:
		problem = "it worked: " + o.stdout
	case o.code == 125:
		problem = "lockbox itself failed"
	case !regexp.MustCompile(a.match).MatchString(o.stderr):
		problem = "the reason does not match " + a.match
	}
	if a.ok != nil && problem == "" {
		if err := a.ok(); err != nil {
			problem = err.Error()
		}
	}
	if a.explain != nil {
		e, err := s.run(append(append([]string{"explain", "-p", "python", "--workdir", s.path("work")}, netFlags(a.flags)...), a.explain...)...)
		if err != nil {
			return 0, err
		}
		fmt.Printf("    $ lockbox explain %s\n%s", s.short(a.explain), s.home(indent(e.stdout+e.stderr)))
		if e.code != 1 && problem == "" {
			problem = fmt.Sprintf("explain ended with %d, and should say deny with 1", e.code)
		}
	}
	fmt.Print(s.receipt(receipt))
	os.Remove(receipt)
	if problem != "" {
		fmt.Printf("    NOT AS TOLD: %s\n\n", problem)
		return 1, nil
	}
	fmt.Println()
	return 0, nil
}

// netFlags are the flags that explain takes too.
func netFlags(flags []string) []string {
	if len(flags) > 0 && flags[0] == "--net" {
		return flags
	}
	return nil
}

// receipt is what the receipt says about denials, limits and usage.
func (s *stage) receipt(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("    no receipt: %v\n", err)
	}
	var r struct {
		Exit struct {
			Code   int    `json:"code"`
			Cause  string `json:"cause"`
			Signal string `json:"signal"`
		} `json:"exit"`
		Usage struct {
			CPU  int64 `json:"cpu_ms"`
			RSS  int64 `json:"max_rss_bytes"`
			Pids int64 `json:"pids_peak"`
		} `json:"usage"`
		Layers []struct {
			Layer    string `json:"layer"`
			By       string `json:"by"`
			Asked    bool   `json:"asked"`
			Verified bool   `json:"verified"`
		} `json:"layers"`
		Denials []struct {
			Kind   string `json:"kind"`
			Op     string `json:"op"`
			Target string `json:"target"`
			Count  uint64 `json:"count"`
			By     string `json:"by"`
			Rule   string `json:"rule"`
		} `json:"denials"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Sprintf("    the receipt is no JSON: %v\n", err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "    receipt: exit %d", r.Exit.Code)
	if r.Exit.Cause != "" {
		fmt.Fprintf(&out, ", cause %s", r.Exit.Cause)
	}
	fmt.Fprintf(&out, "; cpu %d ms, peak %d MiB", r.Usage.CPU, r.Usage.RSS>>20)
	if r.Usage.Pids >= 0 {
		fmt.Fprintf(&out, ", %d processes", r.Usage.Pids)
	}
	out.WriteByte('\n')
	for _, l := range r.Layers {
		if l.Verified && !s.layers {
			fmt.Fprintf(&out, "    verified in the run: %-10s by %s\n", l.Layer, l.By)
		}
	}
	s.layers = true
	for _, d := range r.Denials {
		fmt.Fprintf(&out, "    counted: %d × %s %s %s (%s %s)\n", d.Count, d.Kind, d.Op, s.home(d.Target), d.By, d.Rule)
	}
	return out.String()
}

// home shortens the stage's paths, which are long and say nothing.
func (s *stage) home(text string) string {
	text = strings.ReplaceAll(text, s.path("home"), "~")
	return strings.ReplaceAll(text, s.dir+"/", "")
}

func (s *stage) short(args []string) string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--workdir" {
			i++
			continue
		}
		out = append(out, s.home(args[i]))
	}
	return strings.Join(out, " ")
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("      " + line)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}
