package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
)

// version prints what this binary is, from what the Go tool stamped into it.
func (a *app) version() int {
	v, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if a.opts.json {
		line, err := json.Marshal(struct {
			Version  string `json:"version"`
			Revision string `json:"revision"`
			Go       string `json:"go"`
			Platform string `json:"platform"`
		}{v, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
		if err != nil {
			return a.fail(err)
		}
		a.print(string(line) + "\n")
		return exitOK
	}
	a.printf("lockbox %s %s %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}
