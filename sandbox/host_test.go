package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockbox/test/needs"
)

// Tests of this file need programs or sources that a VM guest has not; it leaves
// out TestHost….

// Soundness 10: under rw with hooks and configuration as carve-outs git works,
// and a hook cannot be planted.
func TestHostGitUnderCarveOuts(t *testing.T) {
	git := needs.Command(t, "git")
	everyTier(t, func(t *testing.T) {
		d := tree(t)
		ws := d + "/ws"
		run := func(args ...string) {
			t.Helper()
			cmd := exec.Command(git, args...)
			cmd.Env = []string{"HOME=" + d, "GIT_CONFIG_NOSYSTEM=1", "PATH=/usr/bin:/bin"}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v %s", args, err, out)
			}
		}
		run("init", "-q", ws)
		os.MkdirAll(ws+"/.git/hooks", 0o755)
		script := `set -e
export HOME=/tmp GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b PATH=/usr/bin:/bin
cd ` + ws + `
echo 1 >f; git add f; git commit -qm one; git tag t
git branch b; echo 2 >f; git commit -qam two; git gc -q; git repack -adq
git worktree add -q ../ws/tree b; cd tree; echo 3 >g; git add g; git commit -qm three; cd ..
git merge -q --no-edit b; git clone -q ` + ws + ` /tmp/clone; git -C /tmp/clone log --oneline; git fsck
if echo x >.git/hooks/post-commit; then echo PLANTED; fi
if mv .git .git-old; then echo PLANTED; fi
if mv .git/hooks .git/h; then echo PLANTED; fi
echo done`
		o, err := start(t, &setup{profile: system("rw "+ws, "-r "+ws+"/.git/hooks"), options: Options{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{}}})
		if err != nil || o.exit.Code != 0 || !strings.Contains(o.out, "done") || strings.Contains(o.out, "PLANTED") {
			t.Errorf("%v %+v\n%s%s", err, o.exit, o.out, o.errs)
		}
		run("-C", ws, "-c", "safe.directory=*", "log", "-1")
	})
}

// AF_UNIX stays: python's forkserver and asyncio need it (soundness 11).
func TestHostPython(t *testing.T) {
	if _, err := os.Lstat("/usr/bin/python3"); err != nil {
		needs.Missing(t, "/usr/bin/python3", "apt-get install python3")
	}
	everyTier(t, func(t *testing.T) {
		d := tree(t)
		code := `
import multiprocessing as mp, asyncio, socket, tempfile, os
def f(x): return x * x
async def echo():
    p = await asyncio.create_subprocess_exec("/bin/echo", "hi", stdout=asyncio.subprocess.PIPE)
    out, _ = await p.communicate()
    return out
if __name__ == "__main__":
    for m in ("fork", "spawn", "forkserver"):
        with mp.get_context(m).Pool(2) as p:
            assert p.map(f, range(4)) == [0, 1, 4, 9]
    assert asyncio.run(echo()) == b"hi\n"
    s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname()); c.close()
    mp.shared_memory = __import__("multiprocessing.shared_memory").shared_memory
    m = mp.shared_memory.SharedMemory(create=True, size=100); m.close(); m.unlink()
    print("fine")
`
		os.WriteFile(d+"/t.py", []byte(code), 0o644)
		o, err := start(t, &setup{profile: system("r " + d), options: Options{Path: "/usr/bin/python3", Argv: []string{"python3", d + "/t.py"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: d}})
		if err != nil || strings.TrimSpace(o.out) != "fine" {
			t.Errorf("%v %+v\n%s%s", err, o.exit, o.out, o.errs)
		}
	})
}

// Nothing of the product sets PR_SET_DUMPABLE to anything but 0 (soundness 1).
func TestHostNobodySetsDumpable(t *testing.T) {
	n := 0
	err := filepath.WalkDir("..", func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return err
		}
		n++
		b, err := os.ReadFile(p)
		if err != nil || !strings.Contains(string(b), "SET_DUMPABLE") {
			return err
		}
		code := strings.ReplaceAll(strings.Join(calls(b), "\n"), "unix.PR_SET_DUMPABLE, 0, 0, 0, 0", "")
		if strings.Contains(code, "SET_DUMPABLE") { // a comment may name it
			t.Errorf("%s sets it", p)
		}
		return nil
	})
	if err != nil || n < 50 {
		t.Fatalf("%d files, %v", n, err)
	}
}

// calls are the lines without comments.
func calls(src []byte) []string {
	var out []string
	for _, l := range strings.Split(string(src), "\n") {
		code, _, _ := strings.Cut(l, "//")
		out = append(out, code)
	}
	return out
}
