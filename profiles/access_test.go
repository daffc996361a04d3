package profiles

import (
	"strings"
	"testing"
	"time"
)

func TestParseAccess(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Access
		ok   bool
	}{
		{"none", None, true}, {"r", Read, true}, {"w", Write, true}, {"rw", Read | Write, true}, {"wr", Read | Write, true},
		{"rx", Read | Exec, true}, {"rwx", all, true}, {"xwr", all, true},
		{"", 0, false}, {"x", 0, false}, {"wx", 0, false}, {"rr", 0, false}, {"R", 0, false}, {"none ", 0, false}, {"rnone", 0, false}, {"q", 0, false},
	} {
		got, err := ParseAccess(tt.in)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("ParseAccess(%q) = %v, %v", tt.in, got, err)
		}
	}
	if _, err := ParseAccess("wx"); !strings.Contains(err.Error(), "use rwx") {
		t.Errorf("no hint: %v", err)
	}
	for a := Access(0); a <= all; a++ {
		if back, err := ParseAccess(a.String()); err == nil && back != a {
			t.Errorf("%d prints as %q and reads as %d", a, a, back)
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
	}{
		{"1B", 1}, {"512MiB", 512 << 20}, {"1GiB", 1 << 30}, {"8388607TiB", 8388607 << 40}, {"9223372036854775807B", 1<<63 - 1},
		{"8388608TiB", 0}, {"9223372036854775808B", 0}, // one above 63 bits
		{"0B", 0}, {"-1B", 0}, {"+1B", 0}, {"1", 0}, {"", 0}, {"B", 0}, {"1.5GiB", 0}, {"1 GiB", 0}, {"1GB", 0}, {"1gib", 0}, {"01B", 0}, {"1GiBB", 0},
	} {
		got, err := ParseSize(tt.in)
		if got != tt.want || (err == nil) != (tt.want != 0) {
			t.Errorf("ParseSize(%q) = %d, %v", tt.in, got, err)
		}
		if err == nil {
			if back, err := ParseSize(FormatSize(got)); back != got || err != nil {
				t.Errorf("FormatSize(%d) = %q reads as %d", got, FormatSize(got), back)
			}
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"30s": 30 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "1ns": 1, "0s": 0, "-1s": 0, "": 0, "30": 0, "1d": 0} {
		got, err := ParseDuration(in)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("ParseDuration(%q) = %v, %v", in, got, err)
		}
	}
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 100 * time.Hour: "100h", 1500 * time.Millisecond: "1.5s"} {
		if got := formatDuration(d); got != want {
			t.Errorf("formatDuration(%v) = %q, want %q", d, got, want)
		}
	}
}
