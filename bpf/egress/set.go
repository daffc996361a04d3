package egress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// ErrNoUnix: the kernel has no connect_unix and sendmsg_unix hooks (Linux 6.7, commit 859051dd165e).
var ErrNoUnix = fmt.Errorf("cgroup/connect_unix: %w", ebpf.ErrNotSupported)

// A Set is the programs, attached to one parent cgroup, and their maps.
type Set struct {
	runs, counts, rings, rules, denials *ebpf.Map
	paths                               *ebpf.Map // nil without the Unix programs
	unix                                bool
	unixErr                             error
	progs                               map[string]*ebpf.Program // nil once opened from pins
	links                               map[string]link.Link
}

// hooks that must be there, and the optional two.
var (
	attachments = []attachment{
		{"egress_socket", ebpf.AttachCGroupInetSockCreate},
		{"egress_bind4", ebpf.AttachCGroupInet4Bind},
		{"egress_bind6", ebpf.AttachCGroupInet6Bind},
		{"egress_connect4", ebpf.AttachCGroupInet4Connect},
		{"egress_connect6", ebpf.AttachCGroupInet6Connect},
		{"egress_sendmsg4", ebpf.AttachCGroupUDP4Sendmsg},
		{"egress_sendmsg6", ebpf.AttachCGroupUDP6Sendmsg},
		{"egress_packet", ebpf.AttachCGroupInetEgress},
	}
	unixAttachments = []attachment{
		{"unix_connect", ebpf.AttachCgroupUnixConnect},
		{"unix_sendmsg", ebpf.AttachCgroupUnixSendmsg},
	}
)

type attachment struct {
	prog string
	at   ebpf.AttachType
}

// Build names the programs of this executable with these denials: sets of equal builds are interchangeable.
func Build(denials []Denial) string {
	h := sha256.New()
	h.Write(_MainBytes)
	h.Write(_SockBytes)
	fmt.Fprintln(h, denials)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Load loads the programs for runs whose cgroups are at level, counted from the root of the hierarchy. Nothing is attached.
func Load(level int, denials []Denial) (_ *Set, err error) {
	if level < 1 {
		return nil, fmt.Errorf("BUG: run cgroups at level %d", level)
	}
	s := &Set{progs: map[string]*ebpf.Program{}, links: map[string]link.Link{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("load the egress programs: %w", err), s.Close())
		}
	}()
	spec, err := loadMain()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["run_level"].Set(uint32(level)); err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	for name, m := range s.maps() {
		if *m = coll.DetachMap(name); *m == nil {
			return nil, fmt.Errorf("BUG: the object has no map %q", name)
		}
	}
	for _, a := range attachments {
		if s.progs[a.prog] = coll.DetachProgram(a.prog); s.progs[a.prog] == nil {
			return nil, fmt.Errorf("BUG: the object has no program %q", a.prog)
		}
	}
	if err := s.counts.Put(uint64(0), make([]counters, ebpf.MustPossibleCPU())); err != nil {
		return nil, fmt.Errorf("make the counters of no run: %w", err)
	}
	for _, d := range denials {
		if err := s.deny(d); err != nil {
			return nil, err
		}
	}
	s.unixErr = s.loadUnix(level)
	s.unix = s.unixErr == nil
	return s, nil
}

func (s *Set) loadUnix(level int) error {
	spec, err := loadSock()
	if err != nil {
		return err
	}
	if err := spec.Variables["run_level"].Set(uint32(level)); err != nil {
		return err
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{"runs": s.runs, "counts": s.counts, "rings": s.rings},
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrNoUnix, err)
	}
	defer coll.Close()
	s.paths = coll.DetachMap("paths")
	for _, a := range unixAttachments {
		s.progs[a.prog] = coll.DetachProgram(a.prog)
	}
	return nil
}

func (s *Set) deny(d Denial) error {
	key, bits, err := denialKey(d.Prefix)
	if err != nil {
		return err
	}
	if err := s.denials.Put(key, [2]uint32{uint32(bits), uint32(d.Class)}); err != nil {
		return fmt.Errorf("add the built-in denial of %v: %w", d.Prefix, err)
	}
	return nil
}

// SetHostAddrs denies the addresses of this host one by one, beside denials, so that a rule opens one only by naming it whole. It replaces the list
// of the last call. What the list misses the egress hook still holds, by a packet that the peer never answers instead of EPERM.
func (s *Set) SetHostAddrs(denials []Denial, addrs []netip.Addr) error {
	keep := map[[denialKeySize]byte]bool{}
	for _, d := range denials {
		key, _, err := denialKey(d.Prefix)
		if err != nil {
			return err
		}
		keep[key] = true
	}
	for _, a := range addrs {
		d := Denial{netip.PrefixFrom(a, a.BitLen()), ClassHost}
		key, _, err := denialKey(d.Prefix)
		if err != nil {
			return err
		}
		if keep[key] {
			continue
		}
		keep[key] = true
		if err := s.deny(d); err != nil {
			return err
		}
	}
	keys, err := allKeys(s.denials, denialKeySize)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if !keep[[denialKeySize]byte(k)] {
			if err := gone(s.denials.Delete(k)); err != nil {
				return fmt.Errorf("forget an address of this host: %w", err)
			}
		}
	}
	return nil
}

// Attach attaches every program to the parent cgroup. All or none.
func (s *Set) Attach(parent string) error {
	list := attachments
	if s.unix {
		list = append(list[:len(list):len(list)], unixAttachments...)
	}
	for _, a := range list {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: parent, Attach: a.at, Program: s.progs[a.prog]})
		if err != nil {
			return fmt.Errorf("attach %s to %q: %w", a.prog, parent, err)
		}
		s.links[a.prog] = l
	}
	return nil
}

// Unix reports whether Unix sockets can be restricted by path, or why not.
func (s *Set) Unix() error {
	if s.unix {
		return nil
	}
	if s.unixErr != nil {
		return s.unixErr
	}
	return ErrNoUnix
}

// Pin pins links and maps in dir, which is in a bpffs and must not exist. From then on they outlive the process.
func (s *Set) Pin(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, m := range s.maps() {
		if err := (*m).Pin(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("pin map %q: %w", name, err)
		}
	}
	if s.unix {
		if err := s.paths.Pin(filepath.Join(dir, "paths")); err != nil {
			return fmt.Errorf("pin map %q: %w", "paths", err)
		}
	}
	for name, l := range s.links {
		if err := l.Pin(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("pin link %q: %w", name, err)
		}
	}
	return nil
}

// OpenPinned opens what Pin made and checks that each program is attached where it belongs: to the cgroup with the id parent.
func OpenPinned(dir string, parent uint64) (_ *Set, err error) {
	s := &Set{links: map[string]link.Link{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the egress programs in %q: %w", dir, err), s.Close())
		}
	}()
	if err := s.openMaps(dir); err != nil {
		return nil, err
	}
	list := attachments
	if s.unix {
		list = append(list[:len(list):len(list)], unixAttachments...)
	}
	for _, a := range list {
		l, err := link.LoadPinnedLink(filepath.Join(dir, a.prog), nil)
		if err != nil {
			return nil, err
		}
		s.links[a.prog] = l
		info, err := l.Info()
		if err != nil {
			return nil, err
		}
		cg := info.Cgroup()
		if cg == nil || cg.CgroupId != parent || ebpf.AttachType(cg.AttachType) != a.at {
			return nil, fmt.Errorf("%s is not attached to cgroup %d", a.prog, parent)
		}
	}
	return s, nil
}

func (s *Set) openMaps(dir string) error {
	for name, m := range s.maps() {
		var err error
		if *m, err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
			return err
		}
	}
	paths, err := ebpf.LoadPinnedMap(filepath.Join(dir, "paths"), nil)
	if err == nil {
		s.paths, s.unix = paths, true
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// PinnedRuns counts the runs in a set that may be of another build.
func PinnedRuns(dir string) ([]uint64, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "runs"), nil)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if m.KeySize() != 8 {
		return nil, fmt.Errorf("%q: not a map of runs", dir)
	}
	keys, err := allKeys(m, 8)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, len(keys))
	for i, k := range keys {
		out[i] = le64(k)
	}
	return out, nil
}

func (s *Set) maps() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{"runs": &s.runs, "counts": &s.counts, "rings": &s.rings, "rules": &s.rules, "denials": &s.denials}
}

// Close closes the descriptors. Programs that are not pinned detach.
func (s *Set) Close() error {
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	for _, p := range s.progs {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	for _, m := range s.maps() {
		if *m != nil {
			errs = append(errs, (*m).Close())
		}
	}
	if s.paths != nil {
		errs = append(errs, s.paths.Close())
	}
	s.links, s.progs = nil, nil
	return errors.Join(errs...)
}

// VerifierLine is what the kernel says of one loaded program.
type VerifierLine struct {
	Program      string
	Instructions uint32 // that the verifier walked
}

// Verified lists the loaded programs of a Set that Load made.
func (s *Set) Verified() []VerifierLine {
	var out []VerifierLine
	for _, a := range append(attachments[:len(attachments):len(attachments)], unixAttachments...) {
		p := s.progs[a.prog]
		if p == nil {
			continue
		}
		if info, err := p.Info(); err == nil {
			n, _ := info.VerifiedInstructions()
			out = append(out, VerifierLine{a.prog, n})
		}
	}
	return out
}

// Detach takes one program off. For tests of those who must notice.
func (s *Set) Detach(prog string) error {
	l := s.links[prog]
	delete(s.links, prog)
	if l == nil {
		return fmt.Errorf("no program %q is attached", prog)
	}
	return l.Close()
}
