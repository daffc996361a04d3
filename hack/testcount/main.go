// Command testcount reads what the tests printed, shows failures, counts, and decides.
//
//	go test -json ./... | testcount stream OUT       show failures as they come, write the tally to OUT
//	testcount console NAME LOG OUT                   the same for the serial log of a guest (go test -v text)
//	testcount sum [-counts FILE] [-update] TALLY…    compare with the committed numbers, print the closing line
//
// The closing line is "N passed, N failed, N skipped". A skipped test counts as a failure of the whole, unless
// LOCKBOX_ALLOW_SKIP=1 was set by hand. A count that differs from the committed number is one too: a kernel test that did
// not run must not pass unseen.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	ok, err := run(os.Args[1:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: testcount stream OUT | console NAME LOG OUT | sum [-counts FILE] [-update] TALLY…")

func run(args []string, in io.Reader, out io.Writer) (ok bool, err error) {
	if len(args) == 0 {
		return false, errUsage
	}
	switch verb, args := args[0], args[1:]; {
	case verb == "stream" && len(args) == 1:
		t := newTally("host")
		if err := t.readJSON(in, out); err != nil {
			return false, err
		}
		return t.clean(), t.save(args[0])
	case verb == "console" && len(args) == 3:
		log, err := os.Open(args[1])
		if err != nil {
			return false, err
		}
		defer log.Close()
		t := newTally(args[0])
		if err := t.readConsole(bufio.NewReader(log), out); err != nil {
			return false, err
		}
		return t.clean(), t.save(args[2])
	case verb == "sum":
		fs := flag.NewFlagSet("sum", flag.ContinueOnError)
		counts := fs.String("counts", "", "file with the committed numbers")
		update := fs.Bool("update", false, "write the committed numbers anew")
		if err := fs.Parse(args); err != nil {
			return false, err
		}
		return sum(fs.Args(), *counts, *update, out)
	}
	return false, errUsage
}
