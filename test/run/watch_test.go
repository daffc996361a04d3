package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// replaced is what somebody outside does while a run is on.
func (c caller) replaced(t *testing.T, flags []string, change func(), args ...string) result {
	t.Helper()
	file := c.home + "/receipt"
	os.Remove(file)
	x := c.command(append(flags, "--receipt", file), c.in(args...)...)
	var out, errs strings.Builder
	x.Stdout, x.Stderr = &out, &errs
	begin := time.Now()
	must(t, x.Start())
	if !eventually(10*time.Second, func() bool { return len(processes("@inside "+strings.Join(args, " ")+" ")) > 1 }) {
		x.Process.Kill()
		x.Wait()
		t.Fatalf("not started: %s", errs.String())
	}
	time.Sleep(50 * time.Millisecond)
	change()
	x.Wait()
	r := result{code: code(x.ProcessState), out: out.String(), err: errs.String(), took: time.Since(begin)}
	r.receipt = readReceipt(t, file)
	c.clean(t)
	return r
}

func tree(t *testing.T, c caller) string {
	t.Helper()
	w := filepath.Join(c.home, "work")
	must(t, os.RemoveAll(w))
	must(t, os.MkdirAll(w+"/a/b/secret", 0o755))
	must(t, os.WriteFile(w+"/a/b/secret/key", []byte("old"), 0o644))
	must(t, os.WriteFile(w+"/open", []byte("open"), 0o644))
	must(t, filepath.Walk(w, func(p string, _ os.FileInfo, err error) error { return os.Chown(p, c.uid, c.uid) }))
	return w
}

// A cover hangs on the directory that was there. Whoever replaces it, or one on
// the way to it, from outside ends the run.
func TestReplacedFromOutside(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for name, path := range map[string]string{"closed directory": "/a/b/secret", "on the way": "/a/b", "top of the way": "/a"} {
			t.Run(name, func(t *testing.T) {
				w := tree(t, c)
				flags := []string{"--rw", w, "--deny", w + "/a/b/secret"}
				c.run(t, flags, "read", w+"/a/b/secret/key").want(t, 1, "secret/key E") // closed
				r := c.replaced(t, flags, func() { must(t, os.Rename(w+path, w+path+"-gone")) }, "sleep", "20000")
				r.want(t, 137, "", "lockbox: killed: ", "replaced from outside")
				if r.receipt.Exit.Cause != "killed" || len(r.receipt.Notes) == 0 || !strings.Contains(r.receipt.Notes[0], w+path+" was replaced") || r.took > 10*time.Second {
					t.Errorf("%+v %q after %s", r.receipt.Exit, r.receipt.Notes, r.took)
				}
			})
		}
		t.Run("beside it", func(t *testing.T) {
			w := tree(t, c)
			r := c.replaced(t, []string{"--rw", w, "--deny", w + "/a/b/secret"}, func() {
				must(t, os.Rename(w+"/open", w+"/other"))
				must(t, os.WriteFile(w+"/a/b/new", nil, 0o644))
			}, "sleep", "700")
			r.want(t, 0, "")
		})
		// Below something only read, the entries beside it are ruled one by one: what
		// comes in its place is in no rule, so nothing has to be watched.
		t.Run("read only", func(t *testing.T) {
			w := tree(t, c)
			flags := []string{"--ro", w, "--deny", w + "/a/b/secret"}
			r := c.replaced(t, flags, func() {
				must(t, os.Rename(w+"/a/b/secret", w+"/a/b/gone"))
				must(t, os.Mkdir(w+"/a/b/secret", 0o755))
				must(t, os.WriteFile(w+"/a/b/secret/key", []byte("new"), 0o644))
			}, "read-later", "700", w+"/a/b/secret/key", w+"/a/b/gone/key")
			if r.code != 1 || strings.Contains(r.out, "old") || strings.Contains(r.out, "new") || r.receipt.Exit.Cause != "" {
				t.Errorf("%d %q %q", r.code, r.out, r.err)
			}
			c.run(t, flags, "read", w+"/open").want(t, 0, "open ok") // control
		})
	})
}
