package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lockbox/runner"
)

// identity is who runs lockbox, and where their things lie.
type identity struct {
	uid        int
	user       string // login name; the number where the host has no name for it
	home       string // $HOME where it is an absolute path, else the home in passwd
	passwdHome string // the home in passwd, or ""
	links      follower
}

// whoAmI reads the environment and /etc/passwd; it starts no program and
// asks no name service.
func whoAmI() identity {
	id := identity{uid: os.Getuid(), user: strconv.Itoa(os.Getuid()), links: follower{}}
	if data, err := readSmall("/etc/passwd"); err == nil {
		if name, home, ok := passwdEntry(data, id.uid); ok {
			id.user, id.passwdHome = name, home
		}
	}
	id.home = os.Getenv("HOME")
	if !filepath.IsAbs(id.home) {
		id.home = id.passwdHome
	}
	if id.home != "" {
		id.home = filepath.Clean(id.home)
	}
	return id
}

// readSmall is os.ReadFile for a regular file, without the poller that package os
// starts for its first file: nine system calls of every run.
func readSmall(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data := make([]byte, 0, 4096)
	for {
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return data, err
		}
		data = slices.Grow(data[:len(data)+n], 1)
	}
}

// findHome gives a process without a usable $HOME (a service, cron) the home in
// passwd, for everything that goes by $HOME.
func findHome() {
	if filepath.IsAbs(os.Getenv("HOME")) {
		return
	}
	if home := whoAmI().home; home != "" {
		os.Setenv("HOME", home)
	}
}

// passwdEntry finds a uid among the lines name:pw:uid:gid:gecos:home:shell.
func passwdEntry(data []byte, uid int) (name, home string, ok bool) {
	want := strconv.Itoa(uid)
	for line := range bytes.Lines(data) {
		f := strings.Split(string(bytes.TrimSuffix(line, []byte("\n"))), ":")
		if len(f) >= 6 && f[2] == want {
			return f[0], f[5], true
		}
	}
	return "", "", false
}

// xdg returns the base directories with the defaults of the XDG base directory
// specification filled in; a relative value is ignored, as it says.
func (id identity) xdg() map[string]string {
	dirs := map[string]string{}
	for name, fallback := range map[string]string{
		"XDG_CONFIG_HOME": ".config",
		"XDG_DATA_HOME":   ".local/share",
		"XDG_STATE_HOME":  ".local/state",
		"XDG_CACHE_HOME":  ".cache",
	} {
		if v := os.Getenv(name); filepath.IsAbs(v) {
			dirs[name] = filepath.Clean(v)
		} else if id.home != "" {
			dirs[name] = filepath.Join(id.home, fallback)
		}
	}
	if v := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(v) {
		dirs["XDG_RUNTIME_DIR"] = filepath.Clean(v)
	}
	return dirs
}

// stateDirs are all places where state of lockbox can lie for this user. The
// environment can add one, but moves none out of the invariants' reach.
func (id identity) stateDirs() []string {
	dirs := []string{runner.Home(), runner.RunDir(), "/var/lib/lockbox", "/run/lockbox"}
	xdg := id.xdg()
	for _, name := range []string{"XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		if xdg[name] != "" {
			dirs = append(dirs, filepath.Join(xdg[name], "lockbox"))
		}
	}
	for _, home := range []string{id.home, id.passwdHome} {
		if filepath.IsAbs(home) {
			dirs = append(dirs, filepath.Join(home, ".local/state/lockbox"))
		}
	}
	return unique(dirs)
}

// configDirs are the places of named profiles and configuration.
func (id identity) configDirs() []string {
	dirs := []string{"/etc/lockbox"}
	if dir := id.xdg()["XDG_CONFIG_HOME"]; dir != "" {
		dirs = append(dirs, filepath.Join(dir, "lockbox"))
	}
	for _, home := range []string{id.home, id.passwdHome} {
		if filepath.IsAbs(home) {
			dirs = append(dirs, filepath.Join(home, ".config/lockbox"))
		}
	}
	return unique(dirs)
}

// unique drops empty and repeated entries and keeps the order.
func unique(list []string) []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
