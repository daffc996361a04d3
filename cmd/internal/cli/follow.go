package cli

import (
	"io/fs"
	"os"
	"path/filepath"
)

// follower resolves symlinks and looks at each directory once: the folders of one
// person share most of their parents. It lives as long as one look at the host; a
// nil one remembers nothing.
type follower map[string]followed

type followed struct {
	path string
	err  error
}

// eval is filepath.EvalSymlinks for a clean absolute path.
func (f follower) eval(path string) (string, error) {
	if f == nil || !filepath.IsAbs(path) || path != filepath.Clean(path) {
		return filepath.EvalSymlinks(path)
	}
	if path == "/" {
		return path, nil
	}
	if known, ok := f[path]; ok {
		return known.path, known.err
	}
	var out followed
	out.path, out.err = f.look(path)
	f[path] = out
	return out.path, out.err
}

func (f follower) look(path string) (string, error) {
	dir, name := filepath.Split(path)
	above, err := f.eval(filepath.Clean(dir))
	if err != nil {
		return "", err
	}
	at := path
	if above != filepath.Clean(dir) {
		at = filepath.Join(above, name)
	}
	st, err := os.Lstat(at)
	if err != nil {
		return "", err
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		return filepath.EvalSymlinks(at)
	}
	return at, nil
}

// resolved follows symlinks as far as the path exists.
func (f follower) resolved(path string) string {
	path = filepath.Clean(path)
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if p, err := f.eval(dir); err == nil {
			return filepath.Join(p, rest)
		}
		if dir == "/" {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
