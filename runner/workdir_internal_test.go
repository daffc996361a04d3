package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A sweep never takes what a living start holds, not even in the moment between
// a lock file's creation and its lock.
func TestSweepBesideStarts(t *testing.T) {
	home := t.TempDir()
	t.Setenv("LOCKBOX_HOME", home)
	end := time.Now().Add(700 * time.Millisecond)
	var wg sync.WaitGroup
	errs := make(chan error, 10)
	for range 3 {
		wg.Go(func() {
			for time.Now().Before(end) {
				sweepWorkdirs()
			}
		})
	}
	for i := range 3 {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				w, err := newWorkdir(fmt.Sprintf("%d-%d", i, n))
				if err == nil {
					_, err = os.Stat(filepath.Join(w.dir, "tmp"))
					w.remove()
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if left, _ := filepath.Glob(home + "/runner/tmp/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What a killed supervisor left goes, whatever modes its files have.
func TestSweepGone(t *testing.T) {
	home := t.TempDir()
	t.Setenv("LOCKBOX_HOME", home)
	w, err := newWorkdir("gone")
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(w.dir+"/tmp/a/b", 0o755)
	os.WriteFile(w.dir+"/tmp/a/b/f", nil, 0)
	os.Chmod(w.dir+"/tmp/a", 0)
	live, err := newWorkdir("live")
	if err != nil {
		t.Fatal(err)
	}
	w.lock.Close() // as the kernel does for a dead process
	if got := sweepWorkdirs(); len(got) != 1 || got[0] != "gone" {
		t.Errorf("swept %v", got)
	}
	left, _ := filepath.Glob(home + "/runner/tmp/*")
	if len(left) != 2 {
		t.Errorf("left: %v", left)
	}
	if err := live.remove(); err != nil {
		t.Error(err)
	}
}
