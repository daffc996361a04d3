//go:build linux

package slot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const lockSuffix = ".lock"

// lockTime bounds how long acquire waits for a sweeper that looks at its new file.
const lockTime = 5 * time.Second

// A lock is a flocked file that lists the slot's directories, one a line. The kernel lets it go when the owner dies.
//
//	owner                              sweeper
//	create EXCL, flock, still linked?  open, flock (else: owned, leave it), still linked?
//	write the directories              read the directories, kill, remove
//	mkdir …                            unlink, close
//
// Who gets the flock of a file that is still linked under its name is its only user. A sweeper that takes a file before
// its maker could lock it finds it empty and unlinks it; the maker sees that and makes another.
type lock struct {
	f *os.File
}

// lockDir returns runDir/slots, private to us.
func lockDir(runDir string) (string, error) {
	dir := filepath.Join(runDir, "slots")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if !fi.IsDir() || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%q must be a directory of uid %d that nobody else can write (is %v of uid %d)", dir, os.Geteuid(), fi.Mode(), st.Uid)
	}
	return dir, nil
}

// acquire makes and takes the lock of id. An id in use gives fs.ErrExist.
func acquire(runDir, id string, dirs []string) (*lock, error) {
	dir, err := lockDir(runDir)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, id+lockSuffix)
	made := false
	for end := time.Now().Add(lockTime); ; time.Sleep(time.Millisecond) {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrExist) && made && time.Now().Before(end) {
			continue // a sweeper is about to unlink the file that we made before
		}
		if err != nil {
			return nil, err
		}
		made = true
		if flock(f) != nil || !linked(f, name) {
			f.Close()
			continue
		}
		if _, err := io.WriteString(f, strings.Join(dirs, "\n")+"\n"); err != nil {
			os.Remove(name)
			f.Close()
			return nil, err
		}
		return &lock{f: f}, nil
	}
}

// seize takes the lock file of an owner that is gone and returns its text. It returns nil if the slot has an owner.
func seize(name string) (*lock, string, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if flock(f) != nil || !linked(f, name) {
		f.Close()
		return nil, "", nil
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		f.Close()
		return nil, "", err
	}
	return &lock{f: f}, string(b), nil
}

// release lets the lock go, and removes its file if the slot is gone.
func (l *lock) release(gone bool) error {
	var err error
	if gone {
		err = os.Remove(l.f.Name())
	}
	return errors.Join(err, l.f.Close())
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// linked tells whether name still is the open file.
func linked(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(name)
	return err == nil && os.SameFile(a, b)
}
