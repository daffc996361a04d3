package runner

import (
	"testing"
	"time"
)

// The rows are of the ULID specification: its example, the smallest and the
// largest value.
func TestEncodeID(t *testing.T) {
	all := [16]byte{}
	for i := range all {
		all[i] = 0xff
	}
	for want, raw := range map[string][16]byte{
		"01ARZ3NDEKTSV4RRFFQ69G5FAV": {0x01, 0x56, 0x3e, 0x3a, 0xb5, 0xd3, 0xd6, 0x76, 0x4c, 0x61, 0xef, 0xb9, 0x93, 0x02, 0xbd, 0x5b},
		"00000000000000000000000000": {},
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ": all,
	} {
		if got := encodeID(raw); got != want {
			t.Errorf("%x: got %s, want %s", raw, got, want)
		}
	}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	first, err := NewID()
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		id, err := NewID()
		if err != nil || !ValidID(id) || seen[id] {
			t.Fatalf("%q: not a new id: %v", id, err)
		}
		seen[id] = true
	}
	time.Sleep(2 * time.Millisecond)
	if later, _ := NewID(); later <= first {
		t.Errorf("%s does not sort after %s", later, first)
	}
	for _, bad := range []string{"", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "0IZZZZZZZZZZZZZZZZZZZZZZZZ", "01arz3ndektsv4rrffq69g5fav", "doctor-01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		if ValidID(bad) {
			t.Errorf("%q passes for an id", bad)
		}
	}
}
