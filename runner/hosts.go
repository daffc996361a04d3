package runner

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"lockbox/sandbox/script"
)

// stepError is the failure of one step of a start.
type stepError = script.StepError

// hostsFile is the run's own /etc/hosts (hosts(5)): loopback and the names that
// were resolved at the start.
func hostsFile(hosts map[string][]netip.Addr) []byte {
	var b bytes.Buffer
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	names := make([]string, 0, len(hosts))
	for n := range hosts {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		for _, a := range hosts[n] {
			fmt.Fprintf(&b, "%s %s\n", a, n)
		}
	}
	return b.Bytes()
}
