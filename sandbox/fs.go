package sandbox

import (
	"io/fs"
	"os"
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
	fi, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return fi.Mode(), nil
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
