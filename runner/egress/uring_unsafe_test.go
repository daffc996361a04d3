package egress

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sysUringSetup = 425
	sysUringEnter = 426
	opConnect     = 16 // IORING_OP_CONNECT
	getEvents     = 1  // IORING_ENTER_GETEVENTS
	offSQEs       = 0x10000000
)

func init() { ops["uring"] = uringConnect }

// uringConnect connects by io_uring: the connect runs in the kernel, without a connect system call.
func uringConnect(q request) (int, error) {
	fd, err := newSocket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var params [120]byte // struct io_uring_params
	r, _, errno := unix.Syscall(sysUringSetup, 4, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return 0, errno
	}
	ring := int(r)
	defer unix.Close(ring)
	u32 := func(b []byte, at uint32) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	sqEntries, cqEntries := u32(params[:], 0), u32(params[:], 4)
	sqOff, cqOff := params[40:80], params[80:120]
	// One mapping serves both rings (IORING_FEAT_SINGLE_MMAP, Linux 5.4).
	size := max(int(u32(sqOff, 24)+4*sqEntries), int(u32(cqOff, 20)+16*cqEntries))
	rings, err := unix.Mmap(ring, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(rings)
	sqes, err := unix.Mmap(ring, offSQEs, int(64*sqEntries), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(sqes)
	sa := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: htons(q.Addr.Port()), Addr: q.Addr.Addr().As4()}
	sqes[0] = opConnect
	binary.LittleEndian.PutUint32(sqes[4:], uint32(fd))
	binary.LittleEndian.PutUint64(sqes[8:], uint64(unsafe.Sizeof(*sa)))
	*(*unsafe.Pointer)(unsafe.Pointer(&sqes[16])) = unsafe.Pointer(sa)
	binary.LittleEndian.PutUint32(rings[u32(sqOff, 24):], 0) // array[0] = entry 0
	binary.LittleEndian.PutUint32(rings[u32(sqOff, 4):], 1)  // tail
	if _, _, errno := unix.Syscall6(sysUringEnter, uintptr(ring), 1, 1, getEvents, 0, 0); errno != 0 {
		return 0, errno
	}
	res := int32(u32(rings, u32(cqOff, 20)+8))
	if res < 0 {
		return 0, unix.Errno(-res)
	}
	return 0, nil
}
