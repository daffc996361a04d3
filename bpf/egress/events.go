package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// An Event is one refusal.
type Event struct {
	Boot   time.Duration // since boot, CLOCK_BOOTTIME
	Run    uint64        // cgroup id
	PID    uint32        // zero where the kernel sent the packet, or could not say
	UID    uint32
	Comm   string
	Hook   Hook
	Reason Reason
	Class  Class          // of a built-in denial
	Proto  uint8          // IP protocol; zero for a Unix socket
	Type   uint8          // socket type, for HookSocket
	Dst    netip.AddrPort // zero for HookSocket and Unix sockets
	Path   string         // Unix socket; an abstract one begins with "@"
}

const (
	eventSize     = 64
	unixEventSize = eventSize + pathMax + 4
)

func decode(b []byte) (Event, error) {
	if len(b) != eventSize && len(b) != unixEventSize {
		return Event{}, fmt.Errorf("an event of %d bytes", len(b))
	}
	e := Event{
		Boot: time.Duration(le64(b)), Run: le64(b[8:]),
		PID: binary.LittleEndian.Uint32(b[16:]), UID: binary.LittleEndian.Uint32(b[20:]),
		Hook: Hook(b[24]), Reason: Reason(b[25]), Proto: b[26], Class: Class(b[30]), Type: b[31],
	}
	comm, _, _ := bytes.Cut(b[48:64], []byte{0})
	e.Comm = string(comm)
	if family := b[27]; e.Hook != HookSocket && (family == 4 || family == 6) {
		e.Dst = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[32:48])), binary.BigEndian.Uint16(b[28:]))
		if family == 4 {
			e.Dst = netip.AddrPortFrom(e.Dst.Addr().Unmap(), e.Dst.Port())
		}
	}
	if len(b) == unixEventSize {
		n := min(int(binary.LittleEndian.Uint32(b[eventSize+pathMax:])), pathMax)
		e.Path = socketPath(b[eventSize : eventSize+n])
	}
	return e, nil
}

func socketPath(b []byte) string {
	if len(b) > 0 && b[0] == 0 {
		return "@" + string(b[1:])
	}
	path, _, _ := strings.Cut(string(b), "\x00")
	return path
}

// Events is the ring of one run. One goroutine at a time reads it.
type Events struct {
	ring   *ebpf.Map
	reader *ringbuf.Reader
	rec    ringbuf.Record
}

// ErrNoEvent is returned by Read when nothing came before its deadline.
var ErrNoEvent = os.ErrDeadlineExceeded

// Watch gives the run a ring of size bytes (a power of two, at least a page) in which its refusals are recorded from now on. The
// kernel waits for a grace period here and in Remove, some milliseconds. Remove ends it; the caller closes the Events.
func (s *Set) Watch(id uint64, size int) (*Events, error) {
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: uint32(size)})
	if err != nil {
		return nil, fmt.Errorf("make a ring of %d bytes: %w", size, err)
	}
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return nil, errors.Join(err, ring.Close())
	}
	if err := s.rings.Update(id, ring, ebpf.UpdateNoExist); err != nil {
		return nil, errors.Join(fmt.Errorf("watch run %d: %w", id, err), reader.Close(), ring.Close())
	}
	return &Events{ring: ring, reader: reader}, nil
}

// Read returns the next event. It waits until the deadline, or for ever if that is zero; os.ErrClosed after Close.
func (e *Events) Read(deadline time.Time) (Event, error) {
	e.reader.SetDeadline(deadline)
	if err := e.reader.ReadInto(&e.rec); err != nil {
		return Event{}, err
	}
	return decode(e.rec.RawSample)
}

// Close ends a Read that waits.
func (e *Events) Close() error { return errors.Join(e.reader.Close(), e.ring.Close()) }

// deleteRing looks first: a deletion that finds nothing still waits for the grace period.
func (s *Set) deleteRing(id uint64) error {
	var inner uint32
	if err := s.rings.Lookup(id, &inner); err != nil {
		return err
	}
	return s.rings.Delete(id)
}
