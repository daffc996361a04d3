package cli

import (
	"encoding/json"
	"errors"

	"lockbox/sandbox"
)

// Diagnostic is what an engine can say and do about the host. The thin binary
// has no engine and goes on as lockbox-runner.
type Diagnostic interface {
	Doctor() ([]sandbox.Feature, error)
	RemovePinned() ([]string, error)
}

// doctor is `lockbox doctor`.
func (a *app) doctor() int {
	if a.engine == nil {
		return a.fail(execRunner(a.argv))
	}
	d, ok := a.engine.(Diagnostic)
	if !ok {
		return a.fail(errors.New("BUG: the engine cannot be asked about the host"))
	}
	if a.opts.remove {
		return a.doctorRemove(d)
	}
	features, err := d.Doctor()
	if err != nil {
		return a.fail(err)
	}
	code := exitOK
	for _, f := range features {
		if !f.OK {
			code = exitNo
		}
		if a.opts.json {
			line, err := json.Marshal(f)
			if err != nil {
				return a.fail(err)
			}
			a.print(string(line) + "\n")
			continue
		}
		a.doctorLine(f)
	}
	return code
}

func (a *app) doctorLine(f sandbox.Feature) {
	mark := "ok"
	if !f.OK {
		mark = "no"
	}
	a.printf("%s  %-14s %s\n    %-14s %s\n", mark, f.Feature, oneLine(f.By, maxLine), "", oneLine(f.Proof, maxLine))
	if !f.OK && f.Fix != "" {
		a.printf("    %-14s fix: %s\n", "", oneLine(f.Fix, maxLine))
	}
}

// doctorRemove takes pinned state away; nothing to take away is fine.
func (a *app) doctorRemove(d Diagnostic) int {
	removed, err := d.RemovePinned()
	for _, what := range removed {
		a.printf("removed %s\n", oneLine(what, maxLine))
	}
	if err != nil {
		return a.fail(err)
	}
	if len(removed) == 0 {
		a.print("nothing to remove\n")
	}
	return exitOK
}
