package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether the file is a terminal.
func isTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// promptSecret reads one line with echo switched off. The terminal is put back
// also when the reader is interrupted.
func promptSecret(in, out *os.File, prompt string) ([]byte, error) {
	fd := int(in.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	restore := func() { unix.IoctlSetTermios(fd, unix.TCSETS, before) }
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(interrupted)
	done := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case s := <-interrupted:
			restore()
			io.WriteString(out, "\n")
			signal.Reset(s)
			unix.Kill(os.Getpid(), s.(unix.Signal))
		case <-done:
		}
	}()
	defer func() { close(done); <-gone }()

	quiet := *before
	quiet.Lflag &^= unix.ECHO
	quiet.Lflag |= unix.ICANON | unix.ISIG | unix.ECHONL
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &quiet); err != nil {
		return nil, err
	}
	defer restore()
	if _, err := io.WriteString(out, prompt); err != nil {
		return nil, err
	}
	var line []byte
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		line = append(line, buf[:n]...)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			return line[:i], nil
		}
		if errors.Is(err, io.EOF) || len(line) > maxSecret {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
