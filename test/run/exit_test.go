package run

import (
	"os"
	"testing"
)

// The exit codes of contracts, in place and supervised. K-018
func TestExitCodes(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		d := c.home + "/progs"
		must(t, os.MkdirAll(d, 0o755))
		put := func(name, text string, mode os.FileMode) string {
			must(t, os.WriteFile(d+"/"+name, []byte(text), mode))
			return d + "/" + name
		}
		plain := put("plain", "#!/bin/sh\nexit 0\n", 0o644)
		noformat := put("noformat", "\x00\x01\x02\x03", 0o755)
		nointerp := put("nointerp", "#!/nowhere/sh\n", 0o755)
		bad := put("bad.toml", "version = 1\nacess = 3\n", 0o644)
		rows := []struct {
			name  string
			flags []string
			cmd   []string
			code  int
			err   string
		}{
			{"zero", nil, c.in("exit", "0"), 0, ""},
			{"own code", nil, c.in("exit", "42"), 42, ""},
			{"largest", nil, c.in("exit", "255"), 255, ""},
			{"own 125 is its own", nil, c.in("exit", "125"), 125, ""},
			{"TERM", nil, c.in("kill-self", "15"), 143, ""},
			{"KILL", nil, c.in("kill-self", "9"), 137, ""},
			{"HUP", nil, c.in("kill-self", "1"), 129, ""},
			{"unknown flag", []string{"--nonsense"}, c.in("exit", "0"), 125, "lockbox: "},
			{"unknown profile", []string{"-p", "no-such"}, c.in("exit", "0"), 125, "no-such"},
			{"bad profile", []string{"-p", bad}, c.in("exit", "0"), 125, "bad.toml:2:1"},
			{"bad size", []string{"--memory", "much"}, c.in("exit", "0"), 125, "much"},
			{"gate", []string{"--net", "gate"}, c.in("exit", "0"), 125, "lockbox-gate"},
			{"cannot enforce", []string{"--rw", d, "--deny", d + "/none-yet"}, c.in("exit", "0"), 125, "cannot be enforced"},
			{"no such folder", []string{"--ro", "/no/such/folder"}, c.in("exit", "0"), 125, "hint: "},
			{"not executable", []string{"--rx", d}, []string{plain}, 126, "not executable"},
			{"no format", []string{"--rx", d}, []string{noformat}, 126, "exec format error"},
			{"directory", []string{"--rx", d}, []string{d}, 126, "not a regular file"},
			{"denied", []string{"--ro", d}, []string{noformat}, 126, "hint: "},
			{"not granted", nil, []string{plain}, 126, "hint: "},
			{"no command", nil, []string{"no-such-command"}, 127, "not found"},
			{"no file", nil, []string{"/usr/bin/no-such-command"}, 127, "no such file"},
			{"no interpreter", []string{"--rx", d}, []string{nointerp}, 127, ""},
		}
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				for _, how := range [][]string{nil, {"--receipt", c.home + "/r"}, {"--timeout", "30s"}} {
					got := finish(t, c.command(append(how, r.flags...), r.cmd...), "")
					got.want(t, r.code, "", r.err)
					if r.err == "" && r.code < 126 && got.err != "" {
						t.Errorf("%v: stderr %q", how, got.err)
					}
					c.clean(t)
				}
			})
		}
	})
}
