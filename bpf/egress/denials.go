package egress

import "net/netip"

// A Class is the caller's number for the reason of a built-in denial; events carry it. Zero is none.
type Class uint8

// ClassHost is the class of this host's own addresses.
const ClassHost Class = 255

// A Denial is an address range that a run reaches only by a rule at least as narrow. IPv4-mapped ranges are IPv4 here.
type Denial struct {
	Prefix netip.Prefix
	Class  Class
}
