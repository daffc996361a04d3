package sandbox

import (
	"io/fs"
	"os"
	"syscall"
)

// FS is the part of the host's file system that compiling looks at. Paths are
// absolute. The kernel's view is [OSFS]; tests hand in a map.
type FS interface {
	Lstat(path string) (fs.FileMode, error)
	Readlink(path string) (string, error)
	ReadDir(path string) ([]string, error)
}

// OSFS is this host's file system.
type OSFS struct{}

// Lstat returns the mode of path itself, symlinks not followed.
func (OSFS) Lstat(path string) (fs.FileMode, error) {
	var st syscall.Stat_t
	for {
		err := syscall.Lstat(path, &st)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		break
	}
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	case syscall.S_IFSOCK:
		mode |= fs.ModeSocket
	case syscall.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case syscall.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case syscall.S_IFBLK:
		mode |= fs.ModeDevice
	}
	return mode, nil
}

// Readlink returns the target of a symlink.
func (OSFS) Readlink(path string) (string, error) { return os.Readlink(path) }

// ReadDir returns the names in a directory, sorted.
func (OSFS) ReadDir(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// memo answers each Lstat and Readlink once. Sealing walks the same parents for
// every rule and invariant.
type memo struct {
	FS
	stat map[string]statAnswer
}

type statAnswer struct {
	mode fs.FileMode
	err  error
}

func remember(fsys FS) FS {
	if _, ok := fsys.(memo); ok {
		return fsys
	}
	return memo{fsys, make(map[string]statAnswer, 192)} // base asks some 150 paths
}

func (m memo) Lstat(path string) (fs.FileMode, error) {
	a, ok := m.stat[path]
	if !ok {
		a.mode, a.err = m.FS.Lstat(path)
		m.stat[path] = a
	}
	return a.mode, a.err
}
