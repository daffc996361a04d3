package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A stage is one caller with a home, a workspace and things outside it.
type stage struct {
	tools
	ctx       context.Context
	uid       int
	dir       string // home/, work/ and seed.git lie here
	lockbox   string
	socket    string // a Unix socket outside
	listener  net.Listener
	signalled chan os.Signal
	layers    bool // the layers were shown
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func newStage(ctx context.Context, base string, uid int, t tools) (*stage, error) {
	s := &stage{tools: t, ctx: ctx, uid: uid, dir: filepath.Join(base, fmt.Sprint("uid", uid)), lockbox: base + "/lockbox"}
	for _, d := range []string{"", "home", "home/.ssh", "home/.cache", "home/.cache/go-build", "work"} {
		if err := os.Mkdir(s.path(d), 0o755); err != nil {
			return nil, err
		}
	}
	files := map[string]string{
		"home/.ssh/id_ed25519": "this is not a key, but it stands for one\n",
		"home/notes.txt":       "notes\n",
		"home/.gitconfig":      "[user]\n\tname = Demo\n\temail = demo@example.org\n[advice]\n\tdetachedHead = false\n",
		"work/test_sum.py":     pythonTest,
		"work/sum.js":          nodeScript,
		"work/escape.py":       escapeScript,
	}
	for name, text := range files {
		if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := s.seed(); err != nil {
		return nil, err
	}
	if err := s.own(); err != nil {
		return nil, err
	}
	s.signalled = make(chan os.Signal, 1)
	signal.Notify(s.signalled, syscall.SIGUSR1)
	return s, s.listen()
}

// seed makes the repository that is cloned, with the dependencies in it, and a build cache that begins with the caller's: the
// demo shows confinement, not how long a compiler takes.
func (s *stage) seed() error {
	work := s.path("vendoring")
	if err := s.command(nil, s.git, "clone", "-q", "--no-hardlinks", "--depth", "1", "file://"+s.repo, work); err != nil {
		return err
	}
	changes, err := exec.CommandContext(s.ctx, s.git, "-C", s.repo, "diff", "--binary", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git diff: %w", err)
	}
	if len(changes) > 0 { // what is built is what lies here
		if err := s.command(changes, s.git, "-C", work, "apply", "--index"); err != nil {
			return err
		}
	}
	for _, argv := range [][]string{
		{s.goTool, "-C", work, "mod", "vendor"},
		{s.git, "-C", work, "add", "-f", "vendor"},
		{s.git, "-C", work, "-c", "user.name=demo", "-c", "user.email=demo@example.org", "commit", "-qm", "vendor: add the dependencies"},
		{s.git, "clone", "-q", "--bare", "--no-hardlinks", work, s.path("seed.git")},
	} {
		if err := s.command(nil, argv...); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	return linkTree(s.gocache, s.path("home/.cache/go-build"))
}

// command runs a command unconfined, to prepare the stage.
func (s *stage) command(stdin []byte, argv ...string) error {
	cmd := exec.CommandContext(s.ctx, argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// linkTree makes to hold the files of from, as hard links; where that cannot be, the cache just begins empty.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if len(rel) > 2 { // fuzz corpora and the like
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if len(filepath.Dir(rel)) != 2 { // not an entry: trim.txt, README
			return nil
		}
		err = os.Link(p, filepath.Join(to, rel))
		if errors.Is(err, syscall.EXDEV) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// own gives folders and files to the caller; hard links of the build cache stay whose they are, and are only read.
func (s *stage) own() error {
	if os.Getuid() != 0 {
		return nil
	}
	cache := s.path("home/.cache/go-build") + "/"
	return filepath.WalkDir(s.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(p, cache) && !d.IsDir() {
			return nil
		}
		return os.Lchown(p, s.uid, s.uid)
	})
}

// listen opens the socket that a run must not reach: in /run for root's demo, beside the home otherwise.
func (s *stage) listen() (err error) {
	s.socket = s.path("agent.sock")
	if os.Getuid() == 0 {
		s.socket = fmt.Sprintf("/run/lockbox-demo-%d.sock", os.Getpid())
	}
	if s.listener, err = net.Listen("unix", s.socket); err != nil {
		return err
	}
	go func() { // ends when the listener is closed
		for {
			c, err := s.listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return os.Chmod(s.socket, 0o666)
}

func (s *stage) close() error {
	signal.Stop(s.signalled)
	return s.listener.Close()
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// run starts lockbox as the stage's caller, with the arguments.
func (s *stage) run(args ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.lockbox, args...)
	cmd.Dir = s.path("work")
	cmd.Env = []string{"PATH=" + filepath.Dir(s.goTool) + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + s.path("home"), "LANG=C.UTF-8"}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid), Groups: []uint32{}}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	err := cmd.Run()
	o := outcome{stdout: stdout.String(), stderr: stderr.String(), took: time.Since(begin)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		if o.code = exit.ExitCode(); o.code < 0 {
			return o, fmt.Errorf("lockbox: %w", err)
		}
	case err != nil:
		return o, err
	}
	return o, nil
}

func copyFile(from, to string, mode os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}
