// Command demo shows lockbox at work: real programs do their work confined, each under its preset; then a script tries to get
// out, by each way that people ask about, and every attempt must fail in the way that is told.
//
//	demo -bin bin
//
// As root it does so twice, as root and as an ordinary user (uid 65534). It works in a folder of its own (below /srv, or the user's home) with a home
// of its own, so that no real key or file is touched, and removes it. It ends with 1 if anything was not as told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/test/ownnet"
)

func main() {
	// Root's part tries addresses that must be denied: in a network namespace that leads nowhere.
	if code, moved := ownnet.Enter(); moved {
		os.Exit(code)
	}
	bin := flag.String("bin", "bin", "folder with lockbox and lockbox-runner")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	begin := time.Now()
	bad, err := demo(ctx, *bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
	fmt.Printf("\n%d things were not as told (%.0f s)\n", bad, time.Since(begin).Seconds())
	if bad > 0 {
		os.Exit(1)
	}
}

// demo returns how much was not as told.
func demo(ctx context.Context, bin string) (bad int, err error) {
	tools, err := findTools()
	if err != nil {
		return 0, err
	}
	place := "/srv" // not below /tmp or /var/tmp: those are private in a run anyway
	if os.Getuid() != 0 {
		if place, err = os.UserHomeDir(); err != nil {
			return 0, err
		}
	}
	if err := os.MkdirAll(place, 0o755); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp(place, "lockbox-demo-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, removeAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	for _, name := range []string{"lockbox", "lockbox-runner"} {
		if err := copyFile(filepath.Join(bin, name), filepath.Join(dir, name), 0o755); err != nil {
			return 0, fmt.Errorf("%w (make build)", err)
		}
	}
	uids := []int{os.Getuid()}
	if os.Getuid() == 0 {
		uids = []int{0, 65534}
	}
	for _, uid := range uids {
		s, err := newStage(ctx, dir, uid, tools)
		if err != nil {
			return bad, err
		}
		n, err := s.show()
		bad += n
		if err := errors.Join(err, s.close()); err != nil {
			return bad, err
		}
		if ctx.Err() != nil {
			return bad, ctx.Err()
		}
	}
	if os.Getuid() != 0 {
		fmt.Println("\nThis was the ordinary user's half. `sudo make demo` shows root's as well, with cgroups and BPF counters.")
	}
	return bad, nil
}

// removeAll also removes what has no write permission (Go's module cache has none).
func removeAll(dir string) error {
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			unix.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
