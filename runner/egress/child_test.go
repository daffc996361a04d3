package egress

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const childArg = "egress test child"

// A request is one thing for a child to try; the answer is the errno and, for some, a number.
type request struct {
	Op   string
	Addr netip.AddrPort
	Path string
	FD   int
	N    int
}

type answer struct {
	Errno syscall.Errno
	Err   string // not an errno: the test is wrong
	N     int
}

// childMain does what the test asks, one request a line.
func childMain() int {
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var q request
		if in.Decode(&q) != nil {
			return 0
		}
		var a answer
		do, ok := ops[q.Op]
		if !ok {
			a.Err = "no op " + q.Op
		} else {
			n, err := do(q)
			a.N = n
			if err != nil && !errors.As(err, &a.Errno) {
				a.Err = err.Error()
			}
		}
		if out.Encode(a) != nil {
			return 0
		}
	}
}

// A child is a process of the tests, in a run or outside of all.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *os.File
	out *os.File
	enc *json.Encoder
	dec *json.Decoder
	run *testRun
}

// startChild starts one in the near namespace, or in ns, and in the cgroup dir if that is not "".
func startChild(t *testing.T, ns *os.File, dir string) *child {
	t.Helper()
	childIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer childOut.Close()
	c := &child{t: t, in: in, out: out, enc: json.NewEncoder(in), dec: json.NewDecoder(bufio.NewReader(out))}
	c.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{childArg}, Stdin: childIn, Stdout: childOut, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{}}
	if dir != "" {
		cg, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer cg.Close()
		c.cmd.SysProcAttr.UseCgroupFD, c.cmd.SysProcAttr.CgroupFD = true, int(cg.Fd())
	}
	if ns == nil {
		ns = host.net.near
	}
	if err := inNetns(ns, c.cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return c
}

func (c *child) stop() {
	if c.cmd == nil {
		return
	}
	c.in.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
	c.out.Close()
	c.cmd = nil
}

// try asks and returns the answer.
func (c *child) try(q request) answer {
	c.t.Helper()
	c.in.SetDeadline(time.Now().Add(20 * time.Second))
	c.out.SetDeadline(time.Now().Add(20 * time.Second))
	var a answer
	if err := c.enc.Encode(q); err != nil {
		c.t.Fatalf("%s: %v", q.Op, err)
	}
	if err := c.dec.Decode(&a); err != nil {
		c.t.Fatalf("%s: %v", q.Op, err)
	}
	if a.Err != "" {
		c.t.Fatalf("%s: %s", q.Op, a.Err)
	}
	return a
}

// want asks and checks the errno.
func (c *child) want(q request, want syscall.Errno) answer {
	c.t.Helper()
	a := c.try(q)
	if a.Errno != want {
		c.t.Errorf("%s %v %s: got %q, want %q", q.Op, q.Addr, q.Path, errnoText(a.Errno), errnoText(want))
	}
	return a
}

var runNumber atomic.Int64

// A testRun is a cgroup below the parent, with an entry if it was given one.
type testRun struct {
	dir string
	id  uint64
}

func newCgroup(t *testing.T) *testRun {
	t.Helper()
	r := &testRun{dir: filepath.Join(host.parent, fmt.Sprintf("run-%d", runNumber.Add(1)))}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeCgroup(r.dir); err != nil {
			t.Error(err)
		}
		if err := host.set.Remove(r.id); err != nil {
			t.Error(err)
		}
	})
	var err error
	if r.id, err = cgroupID(r.dir); err != nil {
		t.Fatal(err)
	}
	return r
}

// startRun makes a cgroup with the policy and a child in it.
func startRun(t *testing.T, p Policy) *child {
	t.Helper()
	r := newCgroup(t)
	if host.set.Unix() != nil {
		p.UnixAny = true
	}
	if err := host.set.Add(r.id, p); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, nil, r.dir)
	c.run = r
	return c
}

// openPolicy allows the open addresses and nothing else.
func openPolicy() Policy {
	var rules []Rule
	for _, a := range []netip.Addr{open4, open6} {
		for _, proto := range []uint8{TCP, UDP} {
			rules = append(rules, Rule{Prefix: netip.PrefixFrom(a, a.BitLen()), Proto: proto})
		}
	}
	return Policy{Rules: rules}
}

// counts returns the run's counters as "hook/reason" → n.
func counts(t *testing.T, id uint64) map[string]uint64 {
	t.Helper()
	list, _, err := host.set.Counters(id)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, c := range list {
		out[c.Hook.String()+"/"+c.Reason.String()] = c.N
	}
	return out
}
