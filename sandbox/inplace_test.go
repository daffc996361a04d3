package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// unattended compiles what nobody looks after.
func unattended(t *testing.T) (*Plan, *Host) {
	t.Helper()
	h, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Seal(withProber(grants()), setup{}.expand, 0, OSFS{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(s.Sealed, h, Options{Path: prober, Argv: []string{prober}, Dir: "/", Links: s.Links})
	if err != nil {
		t.Fatal(err)
	}
	return p, h
}

// Exec in place: the calling process is the command, its parent is closed to it,
// and /proc shows only the run's own (soundness 3, 15).
func TestExecInPlace(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		p, h := unattended(t)
		if want := h.Admin && h.LandlockABI >= 6 && !(h.TTY && h.Leader); p.InPlace != want {
			t.Fatalf("in place: %v, want %v", p.InPlace, want)
		}
		d := tree(t, "granted/x", "w/x", "outside/x")
		pid := os.Getpid()
		rows := append(othersRows(pid),
			yes("pids"), yes("ids"), yes("read", d+"/granted/x"), yes("create", d+"/w/y"),
			row{do("kill", strconv.Itoa(pid), "0"), errs(unix.EPERM, unix.ESRCH)},
			no(readOnly, "chmod", d+"/granted/x"), no(closed, "read", d+"/outside/x"))
		var asks []ask
		for _, r := range rows {
			asks = append(asks, r.ask)
		}
		in, _ := json.Marshal(asks)
		cmd := exec.Command(prober)
		cmd.Env = []string{roleVar + "=in-place", nextVar + "=probe", rulesVar + "=r " + d + "/granted\nrw " + d + "/w"}
		cmd.Stdin = bytes.NewReader(in)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		err := cmd.Run()
		if !p.InPlace {
			if err == nil || !strings.Contains(stderr.String(), "BUG") {
				t.Errorf("Exec of a plan that needs a child: %v %s", err, stderr.String())
			}
			return
		}
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		answers := decode(t, out.Bytes(), asks)
		for i, r := range rows {
			judge(t, "inside", r, answers[i])
		}
		n := len(othersRows(pid))
		own := strconv.Itoa(cmd.Process.Pid)
		if answers[n].Out != own {
			t.Errorf("/proc shows %q, want only %s", answers[n].Out, own)
		}
		if !strings.Contains(answers[n+1].Out, fmt.Sprintf("pid=%s ppid=%d ", own, pid)) {
			t.Errorf("not in place: %s", answers[n+1].Out)
		}
	})
}

// The wrong call of the two is our bug, and says so before anything happens.
func TestStartOrExec(t *testing.T) {
	p, _ := unattended(t)
	if p.InPlace {
		if _, err := p.Start(StartOptions{CgroupFD: -1}); err == nil || !strings.Contains(err.Error(), "BUG") {
			t.Errorf("Start of a plan in place: %v", err)
		}
	}
	p.InPlace = false
	if err := p.Exec(StartOptions{}); err == nil || !strings.Contains(err.Error(), "BUG") {
		t.Errorf("Exec of a plan with a child: %v", err)
	}
}
