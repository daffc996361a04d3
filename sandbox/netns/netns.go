// Package netns holds the prebuilt rtnetlink messages that set up a run's own
// network namespace. They are made with vishvananda/netlink when the package is
// generated, and sent by the child script, which can call no library:
//
//	sendto(netlinkSocket, netns.LoopbackUp, …)
//
// A test sends them in a namespace and compares them with what the library
// builds now.
//
// # What it does not restrict
//
// An empty namespace with loopback up is the restriction; these messages open
// nothing else.
package netns

import "encoding/binary"

//go:generate go run gen.go

// AckError returns the errno in an rtnetlink acknowledgement (struct nlmsgerr,
// native byte order), 0 for success. A short or other message is EBADMSG (74).
func AckError(b []byte) int {
	const (
		header    = 16 // struct nlmsghdr
		nlmsgErr  = 2  // NLMSG_ERROR
		badAnswer = 74 // EBADMSG
	)
	if len(b) < header+4 || binary.NativeEndian.Uint16(b[4:]) != nlmsgErr {
		return badAnswer
	}
	return -int(int32(binary.NativeEndian.Uint32(b[header:])))
}
