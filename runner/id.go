package runner

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// crockford is the alphabet of a ULID (github.com/ulid/spec): no I, L, O, U.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// idLen is the length of a ULID's text: 128 bits, 5 a letter.
const idLen = 26

// NewID returns a ULID: 48 bits of milliseconds since 1970, then 80 random bits
// of the kernel (getrandom(2), since Linux 3.17). A run id is no secret, but two
// runs must not share one.
func NewID() (string, error) {
	var raw [16]byte
	ms := uint64(time.Now().UnixMilli())
	for i := range 6 {
		raw[i] = byte(ms >> (40 - 8*i))
	}
	for n := 6; n < len(raw); {
		got, err := unix.Getrandom(raw[n:], 0)
		if err != nil && err != unix.EINTR {
			return "", fmt.Errorf("getrandom: %w", err)
		}
		n += max(got, 0)
	}
	return encodeID(raw), nil
}

// encodeID writes 128 bits as 26 letters, the first two bits of 130 being zero.
func encodeID(raw [16]byte) string {
	var out [idLen]byte
	var acc uint16 // the bits not yet written, right-aligned
	bits := 2      // of them; the text starts with two zero bits
	n := 0
	for _, b := range raw {
		acc, bits = acc<<8|uint16(b), bits+8
		for bits >= 5 {
			bits -= 5
			out[n] = crockford[acc>>bits&31]
			n++
		}
		acc &= 1<<bits - 1
	}
	return string(out[:])
}

// ValidID reports whether s is a ULID as NewID writes it.
func ValidID(s string) bool {
	if len(s) != idLen || s[0] > '7' { // 130 bits, of which 128 count
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' && c != 'I' && c != 'L' && c != 'O' && c != 'U') {
			return false
		}
	}
	return true
}
