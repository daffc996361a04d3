package runner

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"lockbox/sandbox"
)

// watcher ends a run when somebody outside replaces what a carve-out covers: a
// cover hangs on the file that was there at the start.
//
// The gap between the replacement and the kill (well under a millisecond) is
// not closed; the documentation says so.
type watcher struct {
	c chan string
	f *os.File
}

func startWatch(list []sandbox.Watch) (*watcher, error) {
	w := &watcher{c: make(chan string, 1)}
	if len(list) == 0 {
		return w, nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify_init1: %w", err)
	}
	w.f = os.NewFile(uintptr(fd), "inotify")
	names := map[int32]map[string]sandbox.Watch{}
	for _, x := range list {
		wd, err := unix.InotifyAddWatch(fd, x.Dir, unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_CREATE|unix.IN_DELETE|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
		if err != nil {
			w.f.Close()
			return nil, fmt.Errorf("watch %q, which a carve-out needs: inotify_add_watch: %w", x.Dir, err)
		}
		if names[int32(wd)] == nil {
			names[int32(wd)] = map[string]sandbox.Watch{}
		}
		names[int32(wd)][x.Name] = x
	}
	go w.read(names)
	return w, nil
}

func (w *watcher) read(names map[int32]map[string]sandbox.Watch) {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.f.Read(buf)
		if err != nil {
			return // closed at the run's end
		}
		for off := 0; off+unix.SizeofInotifyEvent <= n; {
			ev := (*unix.InotifyEvent)(unsafe.Pointer(&buf[off]))
			name := unix.ByteSliceToString(buf[off+unix.SizeofInotifyEvent : off+unix.SizeofInotifyEvent+int(ev.Len)])
			off += unix.SizeofInotifyEvent + int(ev.Len)
			why := ""
			switch {
			case ev.Mask&unix.IN_Q_OVERFLOW != 0:
				why = "too many changes beside a closed path to follow"
			case ev.Mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0:
				why = "a directory above a closed path was replaced"
			default:
				if x, ok := names[ev.Wd][name]; ok {
					why = fmt.Sprintf("%s/%s was replaced from outside while the run was on; its cover (%s) no longer holds", x.Dir, x.Name, x.Rule)
				}
			}
			if why != "" {
				select {
				case w.c <- why:
				default:
				}
			}
		}
	}
}

func (w *watcher) close() {
	if w.f != nil {
		w.f.Close()
	}
}
