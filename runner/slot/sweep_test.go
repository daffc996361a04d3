//go:build linux

package slot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startOwner starts a process that owns slot id with a process in it, and returns it and that process's pidfd.
func startOwner(t *testing.T, tree *Tree, id string) (*child, int) {
	t.Helper()
	ch := start(t, nil, tree.env(), "owner", id)
	var pid int
	for _, l := range ch.lines(t) {
		fmt.Sscanf(l, "holding %d", &pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return ch, fd
}

func ended(fd, ms int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, ms)
	return err == nil && n == 1
}

// After kill -9 of its owner a run outlives it only until the next start sweeps; a live owner's run is left alone.
func TestSweepAfterKill(t *testing.T) {
	tree := scratch(t)
	dead, deadRun := startOwner(t, tree, "dead")
	_, liveRun := startOwner(t, tree, "live")
	if swept, err := tree.Sweep(); err != nil || len(swept) != 0 {
		t.Fatalf("control: both owners live, swept %v, %v", swept, err)
	}
	dead.Process.Kill()
	dead.Wait()
	if ended(deadRun, 0) {
		t.Fatal("control: the run died with its owner, so there is nothing to sweep")
	}
	swept, err := tree.Sweep()
	if err != nil || !slices.Equal(swept, []string{"dead"}) {
		t.Errorf("swept %v, %v", swept, err)
	}
	if !ended(deadRun, 5000) {
		t.Error("the dead owner's run lives on")
	}
	if ended(liveRun, 0) {
		t.Error("the live owner's run was killed")
	}
	if got := subdirs(t, tree.v2.parent()); !slices.Equal(got, []string{"live"}) {
		t.Errorf("v2 directories %v", got)
	}
	for c, p := range tree.v1 {
		if got := subdirs(t, p.parent()); slices.Contains(got, "dead") {
			t.Errorf("v1 %s directories %v", c, got)
		}
	}
	if swept, err := tree.Sweep(); err != nil || len(swept) != 0 {
		t.Errorf("swept again: %v, %v", swept, err)
	}
	sweepAll(t, tree)
}

// sweepAll ends what the owners of a test left; they are killed by its cleanup, which runs later, so they are killed here.
func sweepAll(t *testing.T, tree *Tree) {
	t.Helper()
	t.Cleanup(func() {}) // keep the order of cleanups: children first, then the scratch tree
	for _, id := range subdirs(t, tree.v2.parent()) {
		if err := end(filepath.Join(tree.v2.parent(), id), v1DirsOf(tree, id), 5*time.Second, nil); err != nil {
			t.Error(err)
		}
	}
}

func v1DirsOf(tree *Tree, id string) (out []string) {
	for _, p := range tree.v1 {
		out = append(out, filepath.Join(p.parent(), id))
	}
	return out
}

// A lock file that says anything else than the slot's own directories removes nothing.
func TestSweepDamagedLock(t *testing.T) {
	tree := scratch(t)
	if _, err := tree.Parent(); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(tree.v2.Dir, "victim")
	if err := mkdir(victim); err != nil {
		t.Fatal(err)
	}
	dir, err := lockDir(tree.runDir)
	if err != nil {
		t.Fatal(err)
	}
	for id, text := range map[string]string{
		"empty":  "",
		"victim": victim + "\n",
		"dots":   filepath.Join(tree.v2.parent(), "..", "victim") + "\n" + tree.v2.parent() + "/../victim\n",
		"parent": tree.v2.parent() + "\n" + tree.v2.Dir + "\n/\n\n",
		"torn":   tree.v2.parent() + "/to",
	} {
		if err := os.WriteFile(filepath.Join(dir, id+lockSuffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	swept, err := tree.Sweep()
	if err != nil || len(swept) != 0 {
		t.Errorf("swept %v, %v", swept, err)
	}
	if !exists(victim, ".") || !exists(tree.v2.parent(), ".") {
		t.Error("a directory that is no slot was removed")
	}
	e, err := os.ReadDir(dir)
	if err != nil || len(e) != 1 || e[0].Name() != "notes.txt" {
		t.Errorf("left in the lock directory: %v, %v", e, err)
	}
}

// What a start leaves when it is killed at any step is swept: the lock file alone, and each number of directories.
func TestSweepHalfMade(t *testing.T) {
	tree := scratch(t)
	if _, err := tree.Parent(); err != nil {
		t.Fatal(err)
	}
	s := &Slot{id: "half", dir: filepath.Join(tree.v2.parent(), "half"), v1: map[string]string{}}
	for c, p := range tree.v1 {
		s.v1[c] = filepath.Join(p.parent(), "half")
	}
	for n := range len(s.dirs()) + 1 {
		l, err := acquire(tree.runDir, "half", s.dirs())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range s.dirs()[:n] {
			if err := mkdir(d); err != nil {
				t.Fatal(err)
			}
		}
		if swept, err := tree.Sweep(); err != nil || len(swept) != 0 {
			t.Errorf("%d directories, locked: swept %v, %v", n, swept, err)
		}
		l.f.Close() // as the kernel does when the owner dies
		swept, err := tree.Sweep()
		if err != nil || len(swept) != min(n, 1) {
			t.Errorf("%d directories: swept %v, %v", n, swept, err)
		}
		for _, d := range s.dirs() {
			if exists(d, ".") {
				t.Errorf("%d directories: %s is still there", n, d)
			}
		}
	}
}

// Starters and sweepers in several processes, some killed on the way, never take each other's slots and leave nothing.
func TestStorm(t *testing.T) {
	tree := scratch(t)
	var wg sync.WaitGroup
	for p := range 3 {
		ch := start(t, nil, tree.env(), "storm", fmt.Sprintf("p%d", p), "12")
		wg.Go(func() {
			for ch.out.Scan() {
				if l := ch.out.Text(); l == "done" {
					return
				} else if strings.HasPrefix(l, "error:") {
					t.Error(l)
				} else {
					t.Error(l) // the rest of a joined error
				}
			}
		})
	}
	for i := range 4 {
		ch, fd := startOwner(t, tree, fmt.Sprintf("victim-%d", i))
		ch.Process.Kill()
		ch.Wait()
		if _, err := tree.Sweep(); err != nil {
			t.Error(err)
		}
		if !ended(fd, 5000) {
			t.Errorf("victim %d lives on", i)
		}
	}
	wg.Wait()
	if swept, err := tree.Sweep(); err != nil || len(swept) != 0 {
		t.Errorf("left to sweep: %v, %v", swept, err)
	}
	if d := subdirs(t, tree.v2.parent()); len(d) > 0 {
		t.Errorf("slots left: %v", d)
	}
}

// Many goroutines lock, let go and sweep the same few names: each name has one owner at a time, and no file is left.
func TestLockRace(t *testing.T) {
	tree := &Tree{runDir: t.TempDir()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	owned := map[string]int{}
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				if g%4 == 3 {
					if _, err := tree.Sweep(); err != nil {
						t.Error(err)
					}
					continue
				}
				id := fmt.Sprintf("r%d", i%3)
				l, err := acquire(tree.runDir, id, nil)
				if err != nil {
					continue // somebody has it
				}
				mu.Lock()
				if owned[id]++; owned[id] != 1 {
					t.Errorf("%s has %d owners", id, owned[id])
				}
				owned[id]--
				mu.Unlock()
				if err := l.release(true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := tree.Sweep(); err != nil {
		t.Error(err)
	}
	if e, err := os.ReadDir(filepath.Join(tree.runDir, "slots")); err != nil || len(e) > 0 {
		t.Errorf("left: %v, %v", e, err)
	}
}
