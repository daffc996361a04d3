// Command bench measures what confinement costs, always as a ratio to the same work unconfined in the same run: rounds of all
// candidates are interleaved, so that a busy machine slows all of them alike.
//
//	bench -bin bin [-rounds 300] [-only start|files|network] [-write docs/bench.md]
//
// It measures a start of /bin/true (plain, lockbox, bwrap with a comparable profile, and landstrip where npm gives it), 10,000
// opens and 100,000 stats inside against outside, and as root a connect and 1 GiB over loopback with and without the programs.
// BENCH_WRITE=1 stands for -write docs/bench.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "work" {
		if err := work(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench work:", err)
			os.Exit(1)
		}
		return
	}
	bin := flag.String("bin", "bin", "folder with lockbox and lockbox-runner")
	rounds := flag.Int("rounds", 300, "rounds of the start-up comparison")
	only := flag.String("only", "", "measure only this part: start, files or network")
	write := flag.String("write", "", "also write the tables to this file")
	flag.Parse()
	if os.Getenv("BENCH_WRITE") == "1" && *write == "" {
		*write = "docs/bench.md"
	}
	text, err := measure(*bin, *rounds, *only)
	fmt.Print(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if *write != "" {
		if err := os.WriteFile(*write, []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
}

func wanted(only, part string) bool { return only == "" || only == part }

func measure(bin string, rounds int, only string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nMade by `make bench` on %s, %s, %d processors. %s\n", time.Now().Format("2 January 2006"), kernel(), runtime.NumCPU(),
		"Each row is a ratio to the first of its table, measured in interleaved rounds.")
	place := "/srv" // not below /tmp or /var/tmp: those are private in a run
	if os.Getuid() != 0 {
		var err error
		if place, err = os.UserHomeDir(); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(place, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(place, "lockbox-bench-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	env, err := newBench(dir, bin)
	if err != nil {
		return "", err
	}
	callers := []int{os.Getuid()}
	if os.Getuid() == 0 {
		callers = []int{0, 65534}
	}
	for _, uid := range callers {
		if wanted(only, "start") {
			if err := env.starts(&b, uid, rounds); err != nil {
				return b.String(), err
			}
		}
		if wanted(only, "files") {
			if err := env.files(&b, uid); err != nil {
				return b.String(), err
			}
		}
	}
	if !wanted(only, "network") {
		return b.String(), nil
	}
	if os.Getuid() != 0 {
		b.WriteString("\n## Network\n\nNot measured: the programs need root (`sudo make bench`).\n")
		return b.String(), nil
	}
	err = env.network(&b)
	return b.String(), err
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "an unknown kernel"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

// A bench has the programs in a folder that every caller can read.
type bench struct {
	dir, lockbox, self string
}

func newBench(dir, bin string) (*bench, error) {
	e := &bench{dir: dir, lockbox: dir + "/lockbox", self: dir + "/tool/bench"}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"tool", "home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o777); err != nil {
			return nil, err
		}
		if err := os.Chmod(filepath.Join(dir, d), 0o777); err != nil {
			return nil, err
		}
	}
	for to, from := range map[string]string{"lockbox": bin + "/lockbox", "lockbox-runner": bin + "/lockbox-runner", "tool/bench": exe} {
		b, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("%w (make build)", err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o755); err != nil {
			return nil, err
		}
	}
	return e, nil
}
