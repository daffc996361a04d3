package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"lockbox/profiles"
)

// Variables of a supervising or exec'ing part: its profile in the language of
// [grants], one rule a line, and the part of the confined program.
const (
	rulesVar = "LOCKBOX_TEST_RULES"
	nextVar  = "LOCKBOX_TEST_NEXT"
)

// playSupervisor is a small `lockbox run`: it starts a run and waits, or becomes it.
func playSupervisor(role string) int {
	runtime.LockOSThread()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 99
	}
	self := os.Args[0]
	rules := append(loader, "rx "+self)
	if r := os.Getenv(rulesVar); r != "" {
		rules = append(rules, strings.Split(r, "\n")...)
	}
	s, err := Seal(grants(rules...), profiles.Expand{}, profiles.Terminal, OSFS{})
	if err != nil {
		return fail(err)
	}
	h, err := Probe()
	if err != nil {
		return fail(err)
	}
	program := self
	if role == "supervise-sh" {
		program = "/bin/sh"
	}
	p, err := Compile(s.Sealed, h, Options{Argv: append([]string{program}, os.Args[1:]...), Path: program, Dir: "/",
		Env: []string{roleVar + "=" + os.Getenv(nextVar)}, Attended: role != "in-place", Links: s.Links})
	if err != nil {
		return fail(err)
	}
	if role == "in-place" {
		return fail(p.Exec(StartOptions{}))
	}
	proc, err := p.Start(StartOptions{CgroupFD: -1})
	if err != nil {
		return fail(err)
	}
	x, err := proc.Wait()
	if err != nil {
		return fail(err)
	}
	if x.Signal != 0 {
		return 128 + int(x.Signal)
	}
	return x.Code
}
