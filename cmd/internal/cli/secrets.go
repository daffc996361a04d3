package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// resolveSecrets turns references into values, as the person who typed the
// command. An item of the vault goes only to a run whose profiles are all
// installed and all on the item's list.
func resolveSecrets(refs map[string]string, profiles []string, id identity) (map[string]string, error) {
	values := map[string]string{}
	names := make([]string, 0, len(refs))
	for name := range refs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		value, err := resolveSecret(refs[name], profiles, id)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}

func resolveSecret(ref string, profiles []string, id identity) (string, error) {
	kind, rest, ok := strings.Cut(ref, ":")
	if !ok || rest == "" {
		return "", fmt.Errorf("bad reference %q; allowed: vault:NAME, env:NAME, file:PATH", ref)
	}
	var value []byte
	var err error
	switch kind {
	case "vault":
		value, err = fromVault(rest, profiles, id)
	case "env":
		v, set := os.LookupEnv(rest)
		if !set {
			return "", fmt.Errorf("the environment has no %s", rest)
		}
		value = []byte(v)
	case "file":
		value, err = fromFile(rest, id)
	default:
		return "", fmt.Errorf("unknown kind %q; allowed: vault:NAME, env:NAME, file:PATH", kind)
	}
	if err != nil {
		return "", err
	}
	return string(value), checkSecret(value)
}

func fromVault(name string, profiles []string, id identity) ([]byte, error) {
	v, err := openVault(id)
	if err != nil {
		return nil, err
	}
	for _, p := range profiles {
		if isFile(p) {
			return nil, withHint(fmt.Errorf("the profile file %q gets nothing from the vault", p),
				"install it as %s, then `lockbox vault set %s -p NAME`", filepath.Join(id.profileDirs()[0], "NAME.toml"), name)
		}
	}
	item, err := v.get(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withHint(fmt.Errorf("the vault has no item %q", name), "`lockbox vault set %s -p %s` stores it", name, profiles[0])
	}
	if err != nil {
		return nil, err
	}
	for _, p := range profiles {
		if !contains(item.Profiles, p) {
			return nil, withHint(fmt.Errorf("profile %q is not on the list of the vault item %q", p, name),
				"`lockbox vault set %s -p %s` stores it for that profile", name, strings.Join(unique(append(item.Profiles, p)), " -p "))
		}
	}
	return item.Value, nil
}

// fromFile reads a file or a pipe, but nothing of lockbox's own state: the
// vault is reached by item only.
func fromFile(path string, id identity) ([]byte, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(id.home, rest)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() && st.Mode().Type() != fs.ModeNamedPipe {
		return nil, fmt.Errorf("%q is neither a file nor a pipe", path)
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil, err
	}
	for _, dir := range id.stateDirs() {
		if p, err := filepath.EvalSymlinks(dir); err == nil {
			dir = p
		}
		if within(real, dir) {
			return nil, withHint(fmt.Errorf("%q belongs to lockbox's own state", path), "an item of the vault is vault:NAME")
		}
	}
	value, err := io.ReadAll(io.LimitReader(f, maxSecret+2))
	return bytes.TrimSuffix(value, []byte("\n")), err
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// maskValues are the secrets long enough to mask: replacing "1" everywhere
// would only tell which characters it is made of. Longest first, so that a
// value that contains another is masked whole.
func maskValues(values map[string]string) []string {
	var masks []string
	for _, v := range values {
		if len(v) >= 4 {
			masks = append(masks, v)
		}
	}
	sort.Slice(masks, func(i, j int) bool {
		if len(masks[i]) != len(masks[j]) {
			return len(masks[i]) > len(masks[j])
		}
		return masks[i] < masks[j]
	})
	return masks
}
