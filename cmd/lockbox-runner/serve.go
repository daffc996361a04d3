package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"lockbox/runner"
	"lockbox/runner/broker"
	"lockbox/runner/engine"
)

// serve is `lockbox-runner serve`: the broker as a service, until SIGTERM.
func serve(args []string, stderr io.Writer) int {
	f := flag.NewFlagSet("lockbox-runner serve", flag.ContinueOnError)
	f.SetOutput(stderr)
	socket := f.String("socket", runner.Socket(), "Unix socket to listen on, where systemd passes none")
	group := f.String("operators", "", "group whose members may read every run and change none")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if f.NArg() != 0 {
		fmt.Fprintf(stderr, "lockbox: serve takes no argument, has %q\n", f.Arg(0))
		return 2
	}
	if err := serveUntilTold(*socket, *group, stderr); err != nil {
		fmt.Fprintf(stderr, "lockbox: %v\n", err)
		return 1
	}
	return 0
}

func serveUntilTold(socket, group string, stderr io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("the runner's service needs root: it makes cgroups and loads programs for others")
	}
	operators, err := lookupGroup(group)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	srv, err := broker.New(broker.Config{Home: runner.Home(), Engine: engine.New(runner.RunDir()), Operators: operators, Log: log})
	if err != nil {
		return err
	}
	l, err := listen(socket)
	if err != nil {
		return err
	}
	daemon.SdNotify(false, daemon.SdNotifyReady)
	log.Info("ready", "socket", l.Addr().String())
	return srv.Serve(ctx, l)
}

func lookupGroup(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return -1, fmt.Errorf("--operators: %w", err)
	}
	return strconv.Atoi(g.Gid)
}

// listen takes systemd's socket, else makes one. It is open to every user: who
// may ask what is decided by the peer's identity, not by a mode.
func listen(path string) (*net.UnixListener, error) {
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("socket activation: %w", err)
	}
	if len(passed) > 0 {
		l, ok := passed[0].(*net.UnixListener)
		if !ok || len(passed) != 1 {
			return nil, errors.New("socket activation: want exactly one Unix stream socket")
		}
		return l, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("another runner answers on %q", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o666)
}
