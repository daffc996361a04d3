package profiles

import "fmt"

// Access is a set of rights on a file or on everything below a directory. The
// zero value is none.
type Access uint8

const (
	// Read is read and list.
	Read Access = 1 << iota
	// Write is write, create, remove, rename, and change of metadata.
	Write
	// Exec is execute. It never stands without Read: the kernel reads what it
	// executes.
	Exec

	// None closes.
	None Access = 0

	all = Read | Write | Exec
)

// bits lists the single rights, in the order in which they are printed.
var bits = [...]Access{Read, Write, Exec}

// letters are the names of bits.
const letters = "rwx"

// ParseAccess reads "none" or a set of the letters r, w and x.
func ParseAccess(s string) (Access, error) {
	if s == "none" {
		return None, nil
	}
	var a Access
	for i := range len(s) {
		b := bit(s[i])
		if b == None || a&b != 0 {
			return None, fmt.Errorf("bad access %q", s)
		}
		a |= b
	}
	switch {
	case a == None:
		return None, fmt.Errorf("bad access %q", s)
	case a&Exec != 0 && a&Read == 0:
		return None, fmt.Errorf("bad access %q: the kernel reads what it executes: use r%s", s, a)
	}
	return a, nil
}

func bit(letter byte) Access {
	for i, b := range bits {
		if letters[i] == letter {
			return b
		}
	}
	return None
}

// Has reports whether a holds every right of b.
func (a Access) Has(b Access) bool { return a&b == b }

// String is the form that ParseAccess reads.
func (a Access) String() string {
	if a&all == None {
		return "none"
	}
	out := make([]byte, 0, len(bits))
	for i, b := range bits {
		if a&b != 0 {
			out = append(out, letters[i])
		}
	}
	return string(out)
}
