package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// work does one piece of work inside or outside a run and prints how many nanoseconds it took, without the start.
//
//	work open DIR N · work stat DIR N · work connect PORT N · work stream PORT MIB
func work(args []string) error {
	if len(args) != 3 {
		return errors.New("want a kind of work and two arguments")
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	var d time.Duration
	switch args[0] {
	case "open":
		d, err = openFiles(args[1], n)
	case "stat":
		d, err = statFiles(args[1], n)
	case "connect":
		d, err = connects(args[1], n)
	case "stream":
		d, err = stream(args[1], n)
	default:
		err = fmt.Errorf("unknown work %q", args[0])
	}
	if err != nil {
		return err
	}
	fmt.Println(d.Nanoseconds())
	return nil
}

// fileCount is how many files the folder holds; each has a path of three parts below it.
const fileCount = 10000

func fileName(dir string, n int) string {
	n %= fileCount
	return fmt.Sprintf("%s/%02d/%02d/file%d", dir, n/100%100, n%100, n)
}

func makeFiles(dir string) error {
	for n := range fileCount {
		name := fileName(dir, n)
		if err := os.MkdirAll(name[:strings.LastIndexByte(name, '/')], 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func names(dir string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fileName(dir, i)
	}
	return all
}

func openFiles(dir string, n int) (time.Duration, error) {
	all := names(dir, n)
	begin := time.Now()
	for _, name := range all {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		unix.Close(fd)
	}
	return time.Since(begin), nil
}

func statFiles(dir string, n int) (time.Duration, error) {
	all := names(dir, n)
	var st unix.Stat_t
	begin := time.Now()
	for _, name := range all {
		if err := unix.Lstat(name, &st); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}

// serve listens on a port of loopback and hands each connection to f.
func serve(port string, f func(net.Conn)) (string, func() error, error) {
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:"+port)
	if err != nil {
		return "", nil, err
	}
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
	return l.Addr().String(), l.Close, nil
}

func connects(port string, n int) (time.Duration, error) {
	addr, stop, err := serve(port, func(c net.Conn) { c.Close() })
	if err != nil {
		return 0, err
	}
	defer stop()
	p, err := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:])
	if err != nil {
		return 0, err
	}
	to := &unix.SockaddrInet4{Port: p, Addr: [4]byte{127, 0, 0, 1}}
	begin := time.Now()
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		if err := unix.Connect(fd, to); err != nil {
			return 0, fmt.Errorf("connect: %w", err)
		}
		unix.Close(fd)
	}
	return time.Since(begin), nil
}

func stream(port string, mib int) (time.Duration, error) {
	done := make(chan int64, 1)
	addr, stop, err := serve(port, func(c net.Conn) {
		n, _ := io.Copy(io.Discard, struct{ io.Reader }{c})
		done <- n
	})
	if err != nil {
		return 0, err
	}
	defer stop()
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	begin := time.Now()
	for range mib * 4 {
		if _, err := c.Write(buf); err != nil {
			return 0, err
		}
	}
	c.Close()
	if n := <-done; n != int64(mib)<<20 {
		return 0, fmt.Errorf("%d bytes arrived, want %d MiB", n, mib)
	}
	return time.Since(begin), nil
}
