package cli

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/broker/client"
)

// service connects to the runner's service where it is there and the profile
// asks for what only a cgroup gives. nil without an error: lockbox does all
// itself.
func (a *app) service(p *profiles.Profile) (*client.Client, error) {
	l := p.Limits
	if l.Memory == 0 && l.Pids == 0 && l.CPU == 0 && p.Net.Mode != profiles.NetDirect {
		return nil, nil
	}
	return dialService()
}

// dialService asks the service whether it would serve this process. Absent is
// no error; a refusal is one.
func dialService() (*client.Client, error) {
	c, err := client.Dial(runner.Socket())
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := c.Hello(); err != nil {
		c.Close()
		return nil, serviceError(err)
	}
	return c, nil
}

// serviceError keeps the hint of the service's answer.
func serviceError(err error) error {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Hint != "" {
		return withHint(err, "%s", e.Hint)
	}
	return err
}

// mask replaces secret values.
func mask(in, secrets []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		for _, m := range secrets {
			if m != "" {
				s = strings.ReplaceAll(s, m, "***")
			}
		}
		out[i] = s
	}
	return out
}
