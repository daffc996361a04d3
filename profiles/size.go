package profiles

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize reads a whole number with one of the units B, KiB, MiB, GiB and
// TiB. Zero and what does not fit 63 bits are errors.
func ParseSize(s string) (int64, error) {
	for _, u := range sizeUnits {
		num, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := parseCount(num)
		if err != nil || n > math.MaxInt64/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("bad size %q; want a whole number and B, KiB, MiB, GiB or TiB, as 512MiB", shorten(s))
}

// FormatSize writes n bytes in the largest unit that keeps it whole.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n%u.bytes == 0 && n != 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

// parseCount reads a positive decimal number without sign.
func parseCount(s string) (int64, error) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, fmt.Errorf("bad number %q; want a positive whole number", shorten(s))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bad number %q; want a positive whole number", shorten(s))
	}
	return n, nil
}

// ParseDuration reads a positive duration as 30s, 10m or 1h30m.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("bad duration %q; want a positive one, as 30s, 10m or 1h30m", shorten(s))
	}
	return d, nil
}
