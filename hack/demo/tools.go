package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tools are the real programs that are run, by physical path.
type tools struct {
	git, python, node, goTool string
	goroot, gocache, repo     string
}

func findTools() (t tools, err error) {
	for _, w := range []struct {
		to           *string
		name, prefer string
		pkg          string
	}{
		{&t.git, "git", "/usr/bin/git", "git"},
		// A python below somebody's home is often a script of a version manager; the system's own shows more plainly.
		{&t.python, "python3", "/usr/bin/python3", "python3"},
		{&t.node, "node", "/usr/bin/node", "nodejs"},
		{&t.goTool, "go", "", "golang"},
	} {
		path := w.prefer
		if _, err := os.Stat(path); err != nil {
			if path, err = exec.LookPath(w.name); err != nil {
				return t, fmt.Errorf("%s is not installed; sudo apt-get install %s", w.name, w.pkg)
			}
		}
		if *w.to, err = filepath.EvalSymlinks(path); err != nil {
			return t, err
		}
	}
	out, err := exec.Command(t.goTool, "env", "GOROOT", "GOCACHE").Output()
	if err != nil {
		return t, fmt.Errorf("go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.goroot, t.gocache = lines[0], lines[1]
	if t.repo, err = os.Getwd(); err != nil {
		return t, err
	}
	if _, err := os.Stat(filepath.Join(t.repo, ".git")); err != nil {
		return t, fmt.Errorf("the demo clones this repository, and %s is no clone: %w", t.repo, err)
	}
	return t, nil
}
