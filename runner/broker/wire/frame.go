// Package wire is what a lockbox command and the broker say to each other:
// frames with descriptors, and the messages in them. It opens no socket, and links
// nothing that costs at a start.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// maxFrame bounds one message: a profile with 10,000 destinations is about 1 MiB.
const maxFrame = 4 << 20

// maxFDs bounds the descriptors of one message.
const maxFDs = 4

// Conn is a stream socket that carries descriptors.
type Conn interface {
	ReadMsg(b, oob []byte) (n, oobn, flags int, err error)
	WriteMsg(b, oob []byte) (int, error)
}

// WriteFrame sends one message: its length (four bytes, big endian), its bytes,
// and descriptors with the first byte. The descriptors stay the caller's.
func WriteFrame(c Conn, body []byte, fds ...int) error {
	if len(body) > maxFrame {
		return fmt.Errorf("message of %d bytes; at most %d", len(body), maxFrame)
	}
	msg := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	msg = append(msg, body...)
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for len(msg) > 0 {
		n, err := c.WriteMsg(msg, oob)
		if err != nil {
			return err
		}
		msg, oob = msg[n:], nil
	}
	return nil
}

// ReadFrame reads one message. The descriptors become the caller's, close-on-exec.
func ReadFrame(c Conn) (body []byte, fds []int, err error) {
	defer func() {
		if err != nil {
			CloseAll(fds)
			fds = nil
		}
	}()
	var head [4]byte
	if fds, err = readWithFDs(c, head[:], nil); err != nil {
		return nil, fds, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fds, fmt.Errorf("message of %d bytes; at most %d", n, maxFrame)
	}
	// The memory follows what has come, not what was announced.
	for left := int(n); left > 0; {
		step := min(left, max(len(body), firstStep))
		body = append(body, make([]byte, step)...)
		if fds, err = readWithFDs(c, body[len(body)-step:], fds); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fds, err
		}
		left -= step
	}
	return body, fds, nil
}

// firstStep is how much of a message is made room for before any of it is there.
const firstStep = 16 << 10

// readWithFDs fills b and adds the descriptors on the way to fds. Each byte can
// bring some, so they are counted as they come.
func readWithFDs(c Conn, b []byte, fds []int) ([]int, error) {
	oob := make([]byte, unix.CmsgSpace(maxFDs*4))
	for off := 0; off < len(b); {
		n, on, flags, rerr := c.ReadMsg(b[off:], oob)
		more, ferr := parseFDs(oob[:on])
		fds = append(fds, more...)
		if err := errors.Join(eof(n, rerr), ferr); err != nil {
			return fds, err
		}
		if flags&unix.MSG_CTRUNC != 0 || len(fds) > maxFDs {
			return fds, fmt.Errorf("more than %d descriptors in one message", maxFDs)
		}
		off += n
	}
	return fds, nil
}

func eof(n int, err error) error {
	if err == nil && n == 0 {
		return io.EOF
	}
	return err
}

func parseFDs(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var out []int
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			out = append(out, fd)
		}
	}
	return out, nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
