package cli

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"lockbox/profiles"
)

// answer is the JSON of explain.
type answer struct {
	V         int      `json:"v"`
	Decision  string   `json:"decision"` // allow, deny or ask
	Op        string   `json:"op"`
	Object    jsonText `json:"object"`
	DecidedBy string   `json:"decided_by"`
	Steps     []step   `json:"steps"`
	Change    []string `json:"change"`
}

type step struct {
	Step   jsonText `json:"step"`
	Result string   `json:"result"`
	Rule   string   `json:"rule"`
}

// jsonText is a string that may hold bytes that are not UTF-8; those appear as
// {"b64":"…"}.
type jsonText string

func (t jsonText) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"b64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// explain is `lockbox explain`.
func (a *app) explain() int {
	switch a.opts.platform {
	case "", "linux":
	case "darwin":
		return a.fail(errors.New("--platform darwin comes with macOS support; this lockbox answers for linux"))
	default:
		return a.fail(fmt.Errorf("--platform %q; allowed: linux, darwin", a.opts.platform))
	}
	switch kind, rest := a.args[0], a.args[1:]; kind {
	case "file":
		return a.explainFile(rest)
	case "net":
		return a.explainNet(rest)
	case "url":
		return a.fail(withHint(errors.New("explain url comes with the gate; this lockbox has none yet"), "`lockbox explain net HOST:PORT` answers for the network"))
	case "tool":
		return a.fail(errors.New("explain tool comes with the warden; this lockbox has none yet"))
	case "receipt":
		return a.fail(withHint(errors.New("explain receipt comes with the runner's store of receipts; this lockbox has none yet"), "`lockbox run --receipt FILE` writes the receipt of one run"))
	default:
		return a.fail(withHint(fmt.Errorf("explain %q; allowed: file, net", kind), "%s", nearestHint("lockbox explain ", kind, []string{"file", "net"}, "`lockbox help explain`")))
	}
}

// fileOps are the words for an operation on a file.
var fileOps = []struct {
	word string
	op   profiles.Op
}{
	{"r", profiles.OpRead}, {"w", profiles.OpWrite}, {"x", profiles.OpExec},
	{"read", profiles.OpRead}, {"write", profiles.OpWrite}, {"exec", profiles.OpExec},
	{"create", profiles.OpCreate}, {"remove", profiles.OpRemove}, {"metadata", profiles.OpMetadata},
	{"stat", profiles.OpStat}, {"unix", profiles.OpUnix}, {"rename", profiles.OpRename}, {"link", profiles.OpLink},
}

func fileOp(word string) (profiles.Op, error) {
	words := make([]string, 0, len(fileOps))
	for _, f := range fileOps {
		if f.word == word {
			return f.op, nil
		}
		words = append(words, f.word)
	}
	var none profiles.Op
	return none, fmt.Errorf("unknown operation %q; allowed: %s", word, strings.Join(words, ", "))
}

func (a *app) explainFile(args []string) int {
	if len(args) < 2 {
		return a.fail(withHint(errors.New("explain file: a path and an operation are needed"), "`lockbox explain file PATH r`"))
	}
	op, err := fileOp(args[1])
	if err != nil {
		return a.fail(err)
	}
	two := op == profiles.OpRename || op == profiles.OpLink
	if want := map[bool]int{false: 2, true: 3}[two]; len(args) != want {
		return a.fail(withHint(fmt.Errorf("explain file: %s takes %d arguments", args[1], want-1), "`lockbox explain file PATH %s%s`", args[1], map[bool]string{true: " TO"}[two]))
	}
	p, err := loadPolicy(&a.opts)
	if err != nil {
		return a.fail(err)
	}
	// These act on the name itself, not on what a symlink there leads to.
	onName := op == profiles.OpRemove || op == profiles.OpRename || op == profiles.OpLink
	path, steps, err := resolveSteps(args[0], onName)
	if err != nil {
		return a.fail(err)
	}
	object := profiles.Object{Path: path}
	if two {
		to, more, err := resolveSteps(args[2], true)
		if err != nil {
			return a.fail(err)
		}
		object.To, steps = to, append(steps, more...)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		steps = append(steps, step{jsonText(path), "does not exist now; the rules hold once it does", ""})
	}
	if private := p.hiddenBy(path); private != "" {
		steps = append(steps, step{jsonText(private), "private to the run: the host's files are not in it", ""})
	}
	return a.answer(p, op, object, jsonText(path), steps)
}

// resolveSteps follows the symlinks of a path one by one as the kernel does,
// and says so.
func resolveSteps(typed string, keepLast bool) (string, []step, error) {
	path := tilde(typed, whoAmI().home)
	if !filepath.IsAbs(path) {
		dir, err := syscall.Getwd()
		if err != nil {
			return "", nil, fmt.Errorf("getcwd: %w", err)
		}
		path = dir + "/" + path
	}
	if len(path) >= maxPath {
		return "", nil, fmt.Errorf("path %q is %d bytes long; at most %d", cut(path, 60)+"…", len(path), maxPath-1)
	}
	var steps []step
	done, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		if keepLast && lastName(rest) {
			done = next
			continue
		}
		to, err := os.Readlink(next)
		if err != nil { // no symlink, not there, or not for us to see
			done = next
			continue
		}
		if links++; links > 40 { // the kernel's own limit (MAXSYMLINKS)
			return "", nil, fmt.Errorf("path %q: %w", typed, syscall.ELOOP)
		}
		steps = append(steps, step{jsonText(next), "symlink to " + oneLine(to, 200), ""})
		if filepath.IsAbs(to) {
			done = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return done, steps, nil
}

// lastName reports whether nothing but empty names and dots follows.
func lastName(rest []string) bool {
	for _, name := range rest {
		if name != "" && name != "." {
			return false
		}
	}
	return true
}

func (a *app) explainNet(args []string) int {
	if len(args) != 1 {
		return a.fail(withHint(errors.New("explain net: one HOST:PORT[/udp] is needed"), "`lockbox explain net registry.example.org:443`"))
	}
	e, err := profiles.ParseEntry(args[0])
	if err != nil {
		return a.fail(err)
	}
	if e.Port == 0 {
		return a.fail(withHint(fmt.Errorf("explain net %q: a port is needed", args[0]), "`lockbox explain net %s:443`", args[0]))
	}
	object := profiles.Object{Host: e.Host, Port: e.Port, Proto: "tcp"}
	op := profiles.OpConnect
	if e.UDP {
		object.Proto, op = "udp", profiles.OpSend
	}
	if e.Host == "" {
		if !e.Prefix.IsSingleIP() {
			return a.fail(fmt.Errorf("explain net %q: one address is needed, not a range", args[0]))
		}
		object.Addr = e.Prefix.Addr()
	}
	p, err := loadPolicy(&a.opts)
	if err != nil {
		return a.fail(err)
	}
	return a.answer(p, op, object, jsonText(args[0]), nil)
}

// answer asks the model and prints what it says.
func (a *app) answer(p *policy, op profiles.Op, object profiles.Object, name jsonText, before []step) int {
	d := p.sealed.Decide(op, object)
	out := answer{V: 1, Op: op.String(), Object: name, DecidedBy: d.Rule, Steps: before, Change: d.Change}
	for _, s := range d.Steps {
		out.Steps = append(out.Steps, step{jsonText(s.Step), s.Result, s.Rule})
	}
	if out.Steps == nil {
		out.Steps = []step{}
	}
	if out.Change == nil {
		out.Change = []string{}
	}
	code := exitOK
	switch {
	case d.Allow:
		out.Decision = "allow"
	case d.Gate: // which may ask
		out.Decision, code = "ask", exitAsk
	default:
		out.Decision, code = "deny", exitNo
	}
	if a.opts.json {
		line, err := json.Marshal(out)
		if err != nil {
			return a.fail(err)
		}
		a.print(string(line) + "\n")
		return code
	}
	a.printf("%s: %s %s\n", out.Decision, out.Op, oneLine(string(out.Object), maxLine))
	for _, s := range out.Steps {
		line := fmt.Sprintf("  %s: %s", oneLine(string(s.Step), maxLine), oneLine(s.Result, maxLine))
		if s.Rule != "" {
			line += " (" + s.Rule + ")"
		}
		a.print(line + "\n")
	}
	a.printf("decided by: %s\n", out.DecidedBy)
	for _, c := range out.Change {
		a.printf("to change it: %s\n", oneLine(c, maxLine))
	}
	return code
}
