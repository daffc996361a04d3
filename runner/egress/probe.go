package egress

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	bpf "lockbox/bpf/egress"
)

// prove loads a set, attaches it and pins it in pins, and returns it only after it was seen to refuse and to allow. Between, when the new
// programs refuse already, it lets retire take the old ones off: the probe could not tell whose refusal it sees.
func prove(parent, pins string, retire func() error) (_ *bpf.Set, err error) {
	scratch := filepath.Join(parent, "egress-probe-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup for the probe: %w", err)
	}
	defer func() { err = errors.Join(err, removeCgroup(scratch)) }()
	id, err := cgroupID(scratch)
	if err != nil {
		return nil, err
	}
	p, err := startProbe(scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	depth, err := depthOf(scratch, id, p)
	if err != nil {
		return nil, err
	}
	set, err := bpf.Load(depth, builtin())
	if err != nil {
		return nil, unsupported(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, set.Close())
		}
	}()
	if err := set.Attach(parent); err != nil {
		return nil, unsupported(err)
	}
	if err := set.Pin(pins); err != nil {
		return nil, err
	}
	if err := retire(); err != nil {
		return nil, err
	}
	if err := p.check(set, id); err != nil {
		return nil, fmt.Errorf("the egress programs are attached, but a live probe says otherwise: %w", err)
	}
	return set, nil
}

// unsupported: the kernel refuses the programs.
func unsupported(err error) error {
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

// depthOf lets the probe make a socket while the depth is watched.
func depthOf(scratch string, id uint64, p *probe) (depth int, err error) {
	l, err := bpf.NewLevel(scratch, id)
	if err != nil {
		return 0, unsupported(err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if _, err := p.ask(trySocket); err != nil { // an older set may refuse it; it is seen all the same
		return 0, err
	}
	return l.Depth()
}

// A probe is a process in the scratch cgroup that tries what it is told and reports the errno.
type probe struct {
	cmd     *exec.Cmd
	in, out *os.File
	tcp     *net.TCPListener
	udp     *net.UDPConn
}

func startProbe(scratch string) (_ *probe, err error) {
	p := &probe{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start the egress probe: %w", err), p.stop())
		}
	}()
	home := net.IPv4(127, 0, 0, 1)
	if p.tcp, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: home}); err != nil {
		return nil, err
	}
	if p.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: home}); err != nil {
		return nil, err
	}
	cg, err := os.Open(scratch)
	if err != nil {
		return nil, err
	}
	defer cg.Close()
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childIn.Close()
	p.in = in
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childOut.Close()
	p.out = out
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{probeArg, p.port(p.tcp.Addr()), p.port(p.udp.LocalAddr())}, Env: []string{},
		Stdin: childIn, Stdout: childOut,
		SysProcAttr: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cg.Fd())},
	}
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return nil, err
	}
	return p, nil
}

func (p *probe) port(a net.Addr) string {
	return strconv.Itoa(int(netip.MustParseAddrPort(a.String()).Port()))
}

func (p *probe) stop() error {
	for _, f := range []*os.File{p.in, p.out} {
		if f != nil {
			f.Close()
		}
	}
	if p.tcp != nil {
		p.tcp.Close()
	}
	if p.udp != nil {
		p.udp.Close()
	}
	if p.cmd == nil {
		return nil
	}
	p.cmd.Process.Kill()
	p.cmd.Wait() // killed: its status says nothing
	return nil
}

// ask lets the probe try and returns the errno, 0 for success.
func (p *probe) ask(try byte) (syscall.Errno, error) {
	deadline := time.Now().Add(10 * time.Second)
	p.in.SetDeadline(deadline)
	p.out.SetDeadline(deadline)
	if _, err := p.in.Write([]byte{try}); err != nil {
		return 0, fmt.Errorf("ask the probe: %w", err)
	}
	var b [1]byte
	if _, err := p.out.Read(b[:]); err != nil {
		return 0, fmt.Errorf("read the probe's answer: %w", err)
	}
	return syscall.Errno(b[0]), nil
}

// expect: the attempt ends with this errno.
func (p *probe) expect(try byte, want syscall.Errno) error {
	got, err := p.ask(try)
	if err == nil && got != want {
		err = fmt.Errorf("%s: got %q, want %q", tries[try], errnoText(got), errnoText(want))
	}
	return err
}

func errnoText(e syscall.Errno) string {
	if e == 0 {
		return "success"
	}
	return e.Error()
}

// A trial is one attempt, what must come of it, and which hook must have counted it, 0 for none.
type trial struct {
	try  byte
	want syscall.Errno
	hook Hook
}

// check: without an entry nothing, with an empty one no peer, with an open one the same peer.
func (p *probe) check(set *bpf.Set, id uint64) error {
	if err := p.expect(trySocket, syscall.EPERM); err != nil {
		return fmt.Errorf("without an entry: %w", err)
	}
	hasUnix := set.Unix() == nil
	const no = syscall.EPERM
	refused := []trial{{trySocket, 0, 0}, {tryRaw, no, bpf.HookSocket}, {tryTCP, no, bpf.HookConnect4}, {tryUDP, no, bpf.HookEgress},
		{tryUDPOut, no, bpf.HookSendmsg4}, {tryBind, no, bpf.HookBind4}}
	if hasIPv6() {
		refused = append(refused, trial{tryTCP6, no, bpf.HookConnect6}, trial{tryUDPOut6, no, bpf.HookSendmsg6}, trial{tryBind6, no, bpf.HookBind6})
	}
	if hasUnix {
		refused = append(refused, trial{tryUnix, no, bpf.HookConnectUnix})
	}
	if err := p.under(set, id, Policy{UnixAny: !hasUnix}, refused); err != nil {
		return fmt.Errorf("with an empty entry: %w", err)
	}
	open := Policy{UnixAny: true, OwnNet: true}
	allowed := []trial{{tryTCP, 0, 0}, {tryUDP, 0, 0}, {tryBind, 0, 0}, {tryUnix, syscall.ENOENT, 0}}
	if err := p.under(set, id, open, allowed); err != nil {
		return fmt.Errorf("with an open entry: %w", err)
	}
	return p.expect(trySocket, syscall.EPERM)
}

// hasIPv6: not booted with ipv6.disable=1.
func hasIPv6() bool {
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	syscall.Close(fd)
	return true
}

// under runs the trials with an entry, which is gone afterwards.
func (p *probe) under(set *bpf.Set, id uint64, e Policy, trials []trial) (err error) {
	if err := set.Add(id, e); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set.Remove(id)) }()
	want := map[Hook]uint64{}
	for _, t := range trials {
		if err := p.expect(t.try, t.want); err != nil {
			return err
		}
		if t.hook != 0 {
			want[t.hook]++
		}
	}
	list, _, err := set.Counters(id)
	if err != nil {
		return err
	}
	got := map[Hook]uint64{}
	for _, c := range list {
		got[c.Hook] += c.N
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("refusals counted by hook: got %v, want %v", got, want)
	}
	return nil
}
