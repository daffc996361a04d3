package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// timed runs `work` by the command line before it and returns what it measured itself.
func (e *bench) timed(before []string, uid int, args ...string) (time.Duration, error) {
	env, err := e.env(uid)
	if err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	argv := append(append(append([]string{}, before...), e.self, "work"), args...)
	_, err = spawn(argv, uid, env, e.dir+"/work", w)
	w.Close()
	if err != nil {
		return 0, err
	}
	out, err := io.ReadAll(io.LimitReader(r, 4096))
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("output %q: %w", out, err)
	}
	return time.Duration(ns), nil
}

func (e *bench) compare(w io.Writer, rounds, uid int, inside []string, args ...string) error {
	cs := []*candidate{
		{name: "outside", once: func() (time.Duration, error) { return e.timed(nil, uid, args...) }},
		{name: "inside", once: func() (time.Duration, error) { return e.timed(inside, uid, args...) }},
	}
	if err := interleave(rounds, cs); err != nil {
		return err
	}
	table(w, time.Millisecond, "ms", cs)
	return nil
}

// files compares opens and stats; the start of the run is not in the figures.
func (e *bench) files(w io.Writer, uid int) error {
	dir := e.dir + "/files"
	if _, err := os.Stat(dir); err != nil {
		if err := makeFiles(dir); err != nil {
			return err
		}
	}
	inside := []string{e.lockbox, "run", "-p", "base", "--ro", dir, "--rx", e.dir + "/tool", "--"}
	for _, work := range []struct {
		title, kind string
		n           int
	}{{"Opening 10,000 files", "open", 10000}, {"stat of 100,000 files", "stat", 100000}} {
		const rounds = 31
		fmt.Fprintf(w, "\n## %s, as %s (%d rounds)\n\n", work.title, who(uid), rounds)
		if err := e.compare(w, rounds, uid, inside, work.kind, dir, strconv.Itoa(work.n)); err != nil {
			return err
		}
	}
	return nil
}

// network compares loopback within one process, with the programs of --net direct and without.
func (e *bench) network(w io.Writer) error {
	const port = "37915"
	inside := []string{e.lockbox, "run", "-p", "base", "--net", "direct", "--listen", port, "--allow", "127.0.0.1/32:" + port, "--rx", e.dir + "/tool", "--"}
	for _, work := range []struct {
		title, kind string
		rounds, n   int
	}{{"1,000 connects over loopback", "connect", 31, 1000}, {"1 GiB over loopback", "stream", 11, 1024}} {
		fmt.Fprintf(w, "\n## %s, as root (%d rounds)\n\n", work.title, work.rounds)
		if err := e.compare(w, work.rounds, 0, inside, work.kind, port, strconv.Itoa(work.n)); err != nil {
			return err
		}
	}
	return nil
}
