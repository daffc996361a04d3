package cli

import (
	"fmt"
	"math"
	"strconv"

	"lockbox/profiles"
)

// limitFlags reads the flags of the limits.
func limitFlags(o *options, f *profiles.Flags) error {
	for _, size := range []struct {
		flag, text string
		out        *int64
	}{{"--memory", o.memory, &f.Limits.Memory}, {"--output-limit", o.output, &f.Limits.Output}} {
		if size.text == "" {
			continue
		}
		n, err := profiles.ParseSize(size.text)
		if err != nil {
			return fmt.Errorf("%s: %w", size.flag, err)
		}
		*size.out = n
	}
	if o.pids != "" {
		n, err := strconv.ParseInt(o.pids, 10, 64)
		if err != nil || n <= 0 {
			return fmt.Errorf("--pids: bad number %q; want a positive whole number", o.pids)
		}
		f.Limits.Pids = n
	}
	if o.cpu != "" {
		n, err := strconv.ParseFloat(o.cpu, 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return fmt.Errorf("--cpu: bad number %q; want a positive number of cores, as 1.5", o.cpu)
		}
		f.Limits.CPU = n
	}
	if o.timeout != "" {
		d, err := profiles.ParseDuration(o.timeout)
		if err != nil {
			return fmt.Errorf("--timeout: %w", err)
		}
		f.Limits.Wall = d
	}
	return nil
}
