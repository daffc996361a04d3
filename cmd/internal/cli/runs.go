package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockbox/runner"
	"lockbox/runner/broker/client"
)

// withService calls f with a connection to the runner's service.
func (a *app) withService(f func(*client.Client) error) int {
	c, err := dialService()
	if err != nil {
		return a.fail(err)
	}
	if c == nil {
		return a.fail(withHint(fmt.Errorf("the runner's service does not answer on %q", runner.Socket()), "start it: sudo lockbox-runner serve"))
	}
	defer c.Close()
	if err := f(c); err != nil {
		if refused, ok := errors.AsType[*client.Error](err); ok {
			a.say(refused.Error())
			return exitNo
		}
		return a.fail(err)
	}
	return exitOK
}

// ps is `lockbox ps`: the runs that the service holds.
func (a *app) ps() int {
	return a.withService(func(c *client.Client) error {
		runs, err := c.PS()
		if err != nil {
			return err
		}
		if !a.opts.json {
			a.printf("%-26s %6s %7s %-8s %-6s %-12s %s\n", "RUN", "UID", "PID", "STATE", "AGE", "PROFILE", "COMMAND")
		}
		for _, r := range runs {
			if a.opts.json {
				line, err := json.Marshal(r)
				if err != nil {
					return err
				}
				a.print(string(line) + "\n")
				continue
			}
			age := time.Since(r.Started).Round(time.Second)
			a.printf("%-26s %6d %7d %-8s %-6s %-12s %s\n", r.Run, r.UID, r.PID, r.State, age, oneLine(r.Profile, 12), oneLine(strings.Join(r.Argv, " "), maxLine))
		}
		return nil
	})
}

// kill is `lockbox kill RUN`: every process of the run ends.
func (a *app) kill() int {
	return a.withService(func(c *client.Client) error { return c.Kill(a.args[0]) })
}

// receipt is `lockbox receipt RUN`: the stored receipt, one line of JSON.
func (a *app) receipt() int {
	return a.withService(func(c *client.Client) error {
		b, err := c.Receipt(a.args[0])
		if err != nil {
			return err
		}
		a.print(string(b) + "\n")
		return nil
	})
}
