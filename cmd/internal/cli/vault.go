package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"lockbox/runner"
)

// maxSecret is the longest value, in bytes: the kernel takes 128 KiB for one
// environment string (MAX_ARG_STRLEN), the name included.
const maxSecret = 128<<10 - 256

// vault is a folder of secrets, 0700, one file 0600 an item. It belongs to one
// user and lies in the state of lockbox, which is closed to every run.
type vault struct {
	dir string
	uid int
}

// vaultItem is the stored form. An item with no profiles goes to no run.
type vaultItem struct {
	V        int      `json:"v"`
	UID      int      `json:"uid"`
	Profiles []string `json:"profiles"`
	Value    []byte   `json:"value"`
}

func openVault(id identity) (vault, error) {
	home := runner.Home()
	if home == "" {
		return vault{}, withHint(errors.New("no place for the vault: neither LOCKBOX_HOME nor HOME is an absolute path"), "set LOCKBOX_HOME")
	}
	return vault{dir: filepath.Join(home, "console", "vault"), uid: id.uid}, nil
}

// checkItemName allows names that are plain file names and need no quoting.
func checkItemName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] != '.' && name[0] != '-'
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}
	if !ok {
		return fmt.Errorf("bad item name %q; allowed: 1 to 64 of a-z A-Z 0-9 . _ -, first no . or -", name)
	}
	return nil
}

// get reads one item. A missing vault is a missing item.
func (v vault) get(name string) (vaultItem, error) {
	var item vaultItem
	if err := checkItemName(name); err != nil {
		return item, err
	}
	if err := v.checkDir(); err != nil {
		return item, err
	}
	path := filepath.Join(v.dir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return item, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return item, err
	}
	if err := v.private(path, st, false); err != nil {
		return item, err
	}
	dec := json.NewDecoder(io.LimitReader(f, 4*maxSecret))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&item); err != nil {
		return item, fmt.Errorf("vault item %q is damaged: %w", name, err)
	}
	if item.V != 1 {
		return item, fmt.Errorf("vault item %q has version %d; this lockbox reads 1", name, item.V)
	}
	if item.UID != v.uid {
		return item, fmt.Errorf("vault item %q belongs to uid %d", name, item.UID)
	}
	return item, nil
}

// put stores one item: written beside its place, synced, then renamed, so
// that the old or the new value is there at any time.
func (v vault) put(name string, item vaultItem) error {
	if err := checkItemName(name); err != nil {
		return err
	}
	if err := v.makeDir(); err != nil {
		return err
	}
	data, err := json.Marshal(item)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(v.dir, ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(v.dir, name)); err != nil {
		return err
	}
	return syncDir(v.dir)
}

func (v vault) remove(name string) error {
	if err := checkItemName(name); err != nil {
		return err
	}
	if err := v.checkDir(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(v.dir, name)); err != nil {
		return err
	}
	return syncDir(v.dir)
}

// names lists the items.
func (v vault) names() ([]string, error) {
	if err := v.checkDir(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if checkItemName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

func (v vault) makeDir() error {
	for _, dir := range []string{filepath.Dir(filepath.Dir(v.dir)), filepath.Dir(v.dir), v.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return v.checkDir()
}

// checkDir refuses a vault that somebody else could read or exchange.
func (v vault) checkDir() error {
	for _, dir := range []string{filepath.Dir(v.dir), v.dir} {
		st, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if err := v.private(dir, st, true); err != nil {
			return err
		}
	}
	return nil
}

func (v vault) private(path string, st fs.FileInfo, dir bool) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("BUG: stat %q without a stat_t", path)
	}
	mode := "600"
	if dir {
		mode = "700"
	}
	switch {
	case dir && !st.IsDir(), !dir && !st.Mode().IsRegular():
		return fmt.Errorf("vault: %q is a %s", path, st.Mode().Type())
	case int(sys.Uid) != v.uid:
		return fmt.Errorf("vault: %q belongs to uid %d, not %d", path, sys.Uid, v.uid)
	case st.Mode().Perm()&0o077 != 0:
		return withHint(fmt.Errorf("vault: %q is open to others (mode %04o)", path, st.Mode().Perm()), "chmod %s %s", mode, path)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// vaultSet is `lockbox vault set NAME`.
func (a *app) vaultSet() int {
	name := a.args[0]
	if err := checkItemName(name); err != nil {
		return a.fail(err)
	}
	id := whoAmI()
	v, err := openVault(id)
	if err != nil {
		return a.fail(err)
	}
	for _, p := range a.opts.profiles {
		if isFile(p) {
			return a.fail(withHint(fmt.Errorf("%q is a file; only installed profiles can have an item of the vault", p),
				"install it as %s", filepath.Join(id.profileDirs()[0], "NAME.toml")))
		}
		if _, err := findProfile(p, id); err != nil {
			return a.fail(err)
		}
	}
	old, err := v.get(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return a.fail(err)
	}
	item := vaultItem{V: 1, UID: id.uid, Profiles: unique(a.opts.profiles)}
	if len(item.Profiles) == 0 {
		item.Profiles = old.Profiles
	}
	if item.Profiles == nil {
		item.Profiles = []string{}
	}
	if item.Value, err = a.readSecret(name); err != nil {
		return a.fail(err)
	}
	if err := v.put(name, item); err != nil {
		return a.fail(err)
	}
	if len(item.Profiles) == 0 {
		a.say(fmt.Sprintf("stored %q; no profile may have it yet", name))
		a.hint(fmt.Sprintf("`lockbox vault set %s -p PROFILE` stores it for the runs of PROFILE", name))
	}
	return exitOK
}

// readSecret takes a value from stdin: all of it when piped, one line without
// echo at a terminal. One newline at the end is not part of it.
func (a *app) readSecret(name string) ([]byte, error) {
	var value []byte
	var err error
	if isTerminal(a.In) {
		value, err = promptSecret(a.In, a.Err, fmt.Sprintf("value of %s: ", name))
	} else {
		value, err = io.ReadAll(io.LimitReader(a.In, maxSecret+2))
		value = bytes.TrimSuffix(value, []byte("\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the value: %w", err)
	}
	return value, checkSecret(value)
}

func checkSecret(value []byte) error {
	switch {
	case len(value) == 0:
		return errors.New("the value is empty")
	case len(value) > maxSecret:
		return fmt.Errorf("the value is longer than %d bytes", maxSecret)
	case bytes.IndexByte(value, 0) >= 0:
		return errors.New("the value holds a NUL byte; an environment variable cannot")
	}
	return nil
}

// vaultList is `lockbox vault list`.
func (a *app) vaultList() int {
	v, err := openVault(whoAmI())
	if err != nil {
		return a.fail(err)
	}
	names, err := v.names()
	if err != nil {
		return a.fail(err)
	}
	for _, name := range names {
		item, err := v.get(name)
		if err != nil {
			return a.fail(err)
		}
		st, err := os.Lstat(filepath.Join(v.dir, name))
		if err != nil {
			return a.fail(err)
		}
		if !a.opts.json {
			who := strings.Join(item.Profiles, " ")
			if who == "" {
				who = "(no profile)"
			}
			a.printf("%-20s %s\n", name, who)
			continue
		}
		line, err := json.Marshal(struct {
			Name     string   `json:"name"`
			Profiles []string `json:"profiles"`
			Set      string   `json:"set"`
		}{name, item.Profiles, st.ModTime().UTC().Format(time.RFC3339)})
		if err != nil {
			return a.fail(err)
		}
		a.print(string(line) + "\n")
	}
	return exitOK
}

// vaultRemove is `lockbox vault rm NAME`.
func (a *app) vaultRemove() int {
	v, err := openVault(whoAmI())
	if err != nil {
		return a.fail(err)
	}
	err = v.remove(a.args[0])
	if errors.Is(err, fs.ErrNotExist) {
		return a.fail(withCode(exitNo, fmt.Errorf("the vault has no item %q", a.args[0]), "`lockbox vault list`"))
	}
	if err != nil {
		return a.fail(err)
	}
	return exitOK
}
