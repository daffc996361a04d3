package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The environment is empty but for what the profile passes. K-004
func TestEnvironment(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for _, how := range [][]string{nil, {"--receipt", c.home + "/r"}} {
			x := c.command(how, c.in("env")...)
			x.Env = c.environ("LANG=C.UTF-8", "SSH_AUTH_SOCK=/run/agent", "AWS_SECRET_ACCESS_KEY=k", "LD_PRELOAD=/x.so", "BASH_ENV=/x", "LOCKBOX_X=1")
			r := finish(t, x, "")
			r.want(t, 0, "LANG=C.UTF-8\n")
			allowed := []string{"HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "USER"}
			for _, line := range strings.Split(strings.TrimSpace(r.out), "\n") {
				if name, _, _ := strings.Cut(line, "="); !slices.Contains(allowed, name) {
					t.Errorf("%v: %q is inside", how, line)
				}
			}
		}
		x := c.command([]string{"--env", "ONE", "--env", "TWO=2"}, c.in("env")...)
		x.Env = c.environ("ONE=1")
		r := finish(t, x, "")
		r.want(t, 0, "ONE=1\n")
		r.want(t, 0, "TWO=2\n")
	})
}

// Secrets reach the command and nothing else. K-005
func TestSecrets(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		const one, two, three = "sesame-from-env", "sesame-from-file", "sesame-from-vault"
		must(t, os.WriteFile(c.home+"/key", []byte(two+"\n"), 0o600))
		must(t, os.Chown(c.home+"/key", c.uid, c.uid))
		vault := exec.Command(c.bin+"/lockbox", "vault", "set", "item", "-p", "base")
		vault.Env, vault.Dir, vault.SysProcAttr = c.environ(), "/", c.command(nil, "x").SysProcAttr
		finish(t, vault, three).want(t, 0, "")
		flags := []string{"--secret", "A=env:KEY", "--secret", "B=file:" + c.home + "/key", "--secret", "C=vault:item"}
		all := []string{one, two, three}
		start := func(flags []string, args ...string) result {
			x := c.command(flags, args...)
			x.Env = c.environ("KEY=" + one)
			return finish(t, x, "")
		}
		hidden := func(where, text string) {
			t.Helper()
			for _, s := range all {
				if strings.Contains(text, s) {
					t.Errorf("%s shows %q: %s", where, s, text)
				}
			}
		}
		r := start(append(flags, "--receipt", c.home+"/r"), c.in("env")...)
		r.want(t, 0, "A="+one+"\nB="+two+"\nC="+three+"\n")
		hidden("stderr", r.err)
		// Somebody puts a secret into the arguments too.
		r = start(append(flags, "--receipt", c.home+"/r"), append(c.in("exit", "1"), "--token="+one, two+three)...)
		r.want(t, 1, "")
		b, err := os.ReadFile(c.home + "/r")
		must(t, err)
		hidden("the receipt", string(b))
		if !strings.Contains(string(b), "--token=***") {
			t.Errorf("argv of the receipt: %s", b)
		}
		hidden("stderr", r.err)
		r = start(append(flags, "--plan"), c.in("env")...)
		r.want(t, 0, "steps:")
		hidden("--plan", r.out+r.err)
		r = start(append(flags, "--memory", "1GiB", "--timeout", "9s"), append(c.in("kill-self", "9"), one)...)
		hidden("stderr", r.err)

		// A profile that came as a file gets nothing from the vault.
		file := filepath.Join(c.home, "file.toml")
		must(t, os.WriteFile(file, []byte("version = 1\nname = \"base\"\nextends = [\"base\"]\n[env]\nsecret = { C = \"vault:item\" }\n"), 0o644))
		r = start([]string{"-p", file}, c.in("env")...)
		c.refused(t, r, "gets nothing from the vault")
		// And another profile neither.
		ws := c.home + "/ws"
		must(t, os.Mkdir(ws, 0o755))
		c.refused(t, start([]string{"-p", "shell", "--workdir", ws, "--secret", "C=vault:item"}, c.in("env")...), `not on the list of the vault item "item"`)
		// Neither vault nor secrets file can be read inside.
		r = start([]string{"--ro", c.home}, c.in("list", c.home+"/state")...)
		if strings.Contains(r.out, "ok") || strings.Contains(r.out, "vault") {
			t.Errorf("state inside: %s", r.out)
		}
	})
}

// A run inside a run only narrows, or is refused clearly. K-019
func TestNested(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for _, home := range []string{"/tmp/state", c.home + "/state"} {
			for _, flags := range [][]string{{}, {"--rw", "/"}, {"--timeout", "5s"}, {"--memory", "64MiB"}} {
				args := append([]string{c.bin + "/lockbox", "run", "--rx", filepath.Dir(c.probe)}, append(flags, append([]string{"--"}, c.in("read", "/etc/shadow", c.home+"/state")...)...)...)
				x := c.command([]string{"--rx", c.bin, "--env", "LOCKBOX_HOME=" + home}, args...)
				r := finish(t, x, "")
				if r.code != 125 || r.out != "" || !strings.HasPrefix(r.err, "lockbox: ") || strings.Count(r.err, "\n") > 2 {
					t.Errorf("%s %v: code %d\nstdout: %s\nstderr: %s", home, flags, r.code, r.out, r.err)
				}
			}
		}
		// Accepting less of the inner run gives nothing that the outer one closed.
		args := []string{c.bin + "/lockbox", "run", "--rx", filepath.Dir(c.probe), "--ro", "/etc"}
		for _, f := range []string{"metadata", "unix", "processes", "tmp", "carve-outs"} {
			args = append(args, "--weaker", f)
		}
		args = append(append(args, "--"), c.in("read", c.probe, "/etc/shadow", c.home+"/state/run/canary.sock")...)
		r := finish(t, c.command([]string{"--rx", c.bin, "--env", "LOCKBOX_HOME=/tmp/state"}, args...), "")
		if strings.Contains(r.out, "shadow ok") || strings.Contains(r.out, "sock ok") || r.code == 0 {
			t.Errorf("inside a weaker run inside a run: %q %q", r.out, r.err)
		}
	})
}
