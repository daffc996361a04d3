package broker

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lockbox/runner/broker/wire"
	"lockbox/test/needs"
)

// Only the caller's own living child, of the caller's uid and nothing else, and
// once. Whoever is refused was not moved. K-001, K-019
func TestAdopt(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	me, err := unix.PidfdOpen(os.Getpid(), 0)
	must(t, err)
	defer unix.Close(me)
	open := func(pid int) int {
		fd, err := unix.PidfdOpen(pid, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}

	_, own := child(t, peer("sleep"))
	_, second := child(t, peer("sleep"))
	_, theirs := child(t, as(peer("sleep"), 2001))
	_, effective := child(t, peer("uids", "0", "2001", "0"))
	_, saved := child(t, peer("uids", "0", "0", "2001"))
	pid, _ := child(t, peer("parent"))
	grandchild := open(atoi(pid))

	gone := peer("hello", "/nowhere")
	must(t, gone.Start())
	dead := open(gone.Process.Pid)
	eventually(5e9, func() bool { return alive(dead) != nil })
	zombie := dead
	reaped := peer("hello", "/nowhere")
	must(t, reaped.Start())
	past := open(reaped.Process.Pid)
	reaped.Wait()
	t.Cleanup(func() { gone.Wait() })

	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	must(t, err)
	defer unix.Close(event)
	file, err := os.Open("/proc/self/status")
	must(t, err)
	defer file.Close()
	dir, err := os.Open("/proc/" + strconv.Itoa(os.Getpid()))
	must(t, err)
	defer dir.Close()

	refused := map[string]int{
		"the first process": open(1), "oneself": me, "a grandchild": grandchild, "another user's": theirs,
		"an effective uid": effective, "a saved uid": saved, "a zombie": zombie, "a reaped one": past,
		"an eventfd": event, "a file": int(file.Fd()), "a folder of /proc": int(dir.Fd()),
	}
	for name, fd := range refused {
		who := s.by(0)
		who.peer.pidfd = me
		id := newID(t)
		who.must(t, "prepare", wire.PrepareArgs{Run: id})
		r := who.ask(t, "adopt", struct{}{}, fd)
		if pid, _, _ := s.engine.of(id).state(); pid != 0 || r.Error == "" || who.run.info.PID != 0 {
			t.Errorf("%s: moved %d, %q", name, pid, r.Error)
		}
		// It is not too late for the right one.
		who.must(t, "adopt", struct{}{}, own)
		if pid, _, _ := s.engine.of(id).state(); pid == 0 || who.run.info.PID != pid || who.run.info.State != "running" {
			t.Errorf("%s: then its own: %d, %+v", name, pid, who.run.info)
		}
		if r := who.ask(t, "adopt", struct{}{}, second); !strings.Contains(r.Error, "already") {
			t.Errorf("a second process: %q", r.Error)
		}
	}

	// A caller that has ended has no child any more, whoever has its number.
	who := s.by(0)
	who.peer.pidfd = past
	id := newID(t)
	who.must(t, "prepare", wire.PrepareArgs{Run: id})
	if r := who.ask(t, "adopt", struct{}{}, own); !strings.Contains(r.Error, "ended") {
		t.Errorf("an ended caller: %q", r.Error)
	}
	if pid, _, _ := s.engine.of(id).state(); pid != 0 {
		t.Error("moved for an ended caller")
	}
	// Another user's child is not this user's, though it has its uid.
	who = s.by(2001)
	who.peer.pidfd, who.peer.PID = me, 1
	who.must(t, "prepare", wire.PrepareArgs{Run: newID(t)})
	if r := who.ask(t, "adopt", struct{}{}, theirs); !strings.Contains(r.Error, "own child") {
		t.Errorf("somebody's process of the same uid: %q", r.Error)
	}
}
