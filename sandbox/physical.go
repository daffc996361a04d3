package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Link is a symbolic link met on the way to a rule's path. The compiler makes it
// again inside the run's tree, so that the path works as the profile names it.
type Link struct {
	At     string // physical path of the link itself
	Target string // as the link holds it
}

// maxLinks is the kernel's own limit of symlinks in one lookup (MAXSYMLINKS, namei.h).
const maxLinks = 40

// Resolve returns the physical path behind p: every symlink on the way and at
// the end followed, as the kernel would. Components that do not exist end the
// search; what follows them is kept as it is. The links met are returned in the
// order met.
func Resolve(fsys FS, p string) (string, []Link, error) {
	p = path.Clean("/" + p)
	plain, err := plainPrefix(fsys, p)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) || errors.Is(err, fs.ErrPermission) {
			return p, nil, nil // as below
		}
		return "", nil, fmt.Errorf("look up %q: %w", p, err)
	}
	if plain == p {
		return p, nil, nil
	}
	return follow(fsys, p, plain)
}

// plainPrefix is the part of a clean absolute path above its first symlink, all of
// the path where there is none. It is what nearly every path needs, and slices it.
func plainPrefix(fsys FS, p string) (string, error) {
	for end := 1; end < len(p); end++ {
		above := end - 1
		for end < len(p) && p[end] != '/' {
			end++
		}
		mode, err := fsys.Lstat(p[:end])
		if err != nil {
			return "", err
		}
		if mode&fs.ModeSymlink != 0 {
			return p[:max(above, 1)], nil
		}
	}
	return p, nil
}

// follow is Resolve from a directory on the way to p that is physical already.
func follow(fsys FS, p, done string) (string, []Link, error) {
	var links []Link
	rest := strings.Split(strings.Trim(p[len(done):], "/"), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		at := path.Join(done, name)
		mode, err := fsys.Lstat(at)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
				return path.Join(append([]string{at}, rest...)...), links, nil
			}
			if errors.Is(err, fs.ErrPermission) {
				// Not searchable for the caller: nothing below can be opened by
				// it either, and opening will say so.
				return path.Join(append([]string{at}, rest...)...), links, nil
			}
			return "", nil, fmt.Errorf("look up %q: %w", p, err)
		}
		if mode&fs.ModeSymlink == 0 {
			done = at
			continue
		}
		if len(links) == maxLinks {
			return "", nil, fmt.Errorf("look up %q: more than %d symbolic links", p, maxLinks)
		}
		target, err := fsys.Readlink(at)
		if err != nil {
			return "", nil, fmt.Errorf("look up %q: %w", p, err)
		}
		links = append(links, Link{At: at, Target: target})
		if strings.HasPrefix(target, "/") {
			done = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return done, links, nil
}
