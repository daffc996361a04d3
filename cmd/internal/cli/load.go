package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"lockbox/profiles"
)

// maxProfile is the largest profile document we read, in bytes.
const maxProfile = 8 << 20

// found is a profile document and where it came from.
type found struct {
	name   string
	source string // a path, or "preset"
	data   []byte // what was written; nil for a preset
	doc    *profiles.Document
}

// isFile reports whether -p means a file rather than an installed profile.
func isFile(name string) bool {
	return strings.Contains(name, "/") || strings.HasSuffix(name, ".toml")
}

// profileDirs are the folders of installed profiles, the first wins.
func (id identity) profileDirs() []string {
	var dirs []string
	if dir := id.xdg()["XDG_CONFIG_HOME"]; dir != "" {
		dirs = append(dirs, filepath.Join(dir, "lockbox", "profiles"))
	}
	return append(dirs, "/etc/lockbox/profiles")
}

// checkProfileName keeps a name from being a path.
func checkProfileName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] != '.' && name[0] != '-'
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}
	if !ok {
		return withHint(fmt.Errorf("bad profile name %q", name), "a name is 1 to 64 of a-z A-Z 0-9 . _ -; a file is given with a / or as NAME.toml")
	}
	return nil
}

// findProfile reads an installed profile.
func findProfile(name string, id identity) (found, error) {
	if err := checkProfileName(name); err != nil {
		return found{}, err
	}
	for _, dir := range id.profileDirs() {
		path := filepath.Join(dir, name+".toml")
		f, err := readProfile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		f.name = name
		return f, err
	}
	if doc, ok := profiles.Preset(name); ok {
		return found{name: name, source: "preset", doc: doc}, nil
	}
	return found{}, withHint(fmt.Errorf("no profile named %q", name), "%s",
		nearestHint("-p ", name, profileNames(id), "`lockbox profile list` lists them; a file is given with a / or as NAME.toml"))
}

// readProfile reads and parses one file. Pipes and devices are refused: a run
// may have to read the document a second time, in lockbox-runner.
func readProfile(path string) (found, error) {
	st, err := os.Stat(path)
	if err != nil {
		return found{}, err
	}
	if !st.Mode().IsRegular() {
		return found{}, fmt.Errorf("profile %q is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return found{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err != nil {
		return found{}, err
	}
	if len(data) > maxProfile {
		return found{}, fmt.Errorf("profile %q is larger than %d MiB", path, maxProfile>>20)
	}
	doc, err := profiles.Parse(path, data)
	if err != nil {
		return found{}, err
	}
	return found{name: path, source: path, data: data, doc: doc}, nil
}

// openProfile takes what -p takes: a name or a file.
func openProfile(name string, id identity) (found, error) {
	if !isFile(name) {
		return findProfile(name, id)
	}
	f, err := readProfile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if bare, ok := strings.CutSuffix(name, ".toml"); ok && checkProfileName(bare) == nil {
			return f, withHint(err, "the file is looked for in the current directory; an installed profile is -p %s", bare)
		}
	}
	return f, err
}

// lookupFor resolves the names of a command line and the names that documents
// extend; those may only be installed profiles, so that a file from elsewhere
// pulls in nothing but what the user or the system installed.
func lookupFor(given []string, id identity) func(string) (*profiles.Document, error) {
	return func(name string) (*profiles.Document, error) {
		if isFile(name) && !contains(given, name) {
			return nil, fmt.Errorf("extends %q: only installed profiles can be extended, by name", name)
		}
		f, err := openProfile(name, id)
		return f.doc, err
	}
}

// profileNames lists every name that -p takes.
func profileNames(id identity) []string {
	names := append([]string{}, profiles.PresetNames()...)
	for _, dir := range id.profileDirs() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // absent, or not for us: then -p could not use it either
		}
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".toml"); ok && checkProfileName(name) == nil {
				names = append(names, name)
			}
		}
	}
	names = unique(names)
	sort.Strings(names)
	return names
}
