package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// workdir returns the physical working directory of the command: --workdir,
// else the current directory.
func workdir(flag string) (string, error) {
	if flag != "" {
		dir, err := physical(flag)
		if err != nil {
			return "", fmt.Errorf("--workdir: %w", err)
		}
		if st, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("--workdir: %w", err)
		} else if !st.IsDir() {
			return "", fmt.Errorf("--workdir %q is not a directory", flag)
		}
		return dir, nil
	}
	dir, err := syscall.Getwd() // the kernel's answer, not $PWD
	if err != nil {
		return "", fmt.Errorf("getcwd: %w", err)
	}
	if !filepath.IsAbs(dir) { // "(unreachable)…": mounted away or outside the root
		return "", fmt.Errorf("getcwd: the current directory %q cannot be reached", dir)
	}
	return dir, nil
}

// workspace says what $WORKSPACE stands for: --workdir as given, else the git
// top level of the directory, else the directory itself. The error says why
// it may not be used; it matters only where a profile does.
func workspace(dir string, given bool, id identity) (string, error) {
	ws := dir
	if !given {
		if top, ok := gitTop(dir); ok {
			ws = top
		}
	}
	return ws, checkWorkspace(ws, id)
}

// gitTop walks up to the directory that holds .git: a directory, or the file
// of a linked worktree or submodule. No git is started.
func gitTop(dir string) (string, bool) {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

var errWorkspace = errors.New("no workspace")

// checkWorkspace refuses directories that hold far more than one project.
func checkWorkspace(ws string, id identity) error {
	if ws == "/" {
		return fmt.Errorf("%w: $WORKSPACE would be /", errWorkspace)
	}
	for _, home := range []string{id.home, id.passwdHome} {
		if home == "" {
			continue
		}
		if p, err := id.links.eval(home); err == nil {
			home = p
		}
		if home != "/" && within(home, ws) {
			return fmt.Errorf("%w: $WORKSPACE would be %q, which is your home or holds it", errWorkspace, ws)
		}
	}
	for _, dir := range append(id.stateDirs(), id.configDirs()...) {
		if p, err := id.links.eval(dir); err == nil {
			dir = p
		}
		if within(dir, ws) || within(ws, dir) {
			return fmt.Errorf("%w: $WORKSPACE would be %q, which holds state or configuration of lockbox (%s)", errWorkspace, ws, dir)
		}
	}
	return nil
}

// within reports whether path is dir or lies below it; both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// physical returns the absolute path with every symlink resolved; ".." is
// taken after a symlink, as the kernel does.
func physical(path string) (string, error) {
	if !filepath.IsAbs(path) {
		dir, err := syscall.Getwd()
		if err != nil {
			return "", fmt.Errorf("getcwd: %w", err)
		}
		path = dir + "/" + path
	}
	return filepath.EvalSymlinks(path)
}
