package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// output is where the command writes. Without an output limit that is the
// caller's own descriptors; with one it is two pipes, copied and counted.
type output struct {
	stdout, stderr *os.File // the command's ends
	limit          int64
	used           atomic.Int64
	pairs          []pair
	wg             sync.WaitGroup
}

type pair struct {
	r  *os.File
	to *os.File
}

func (r *Run) output() (*output, error) {
	o := &output{stdout: r.spec.Stdout, stderr: r.spec.Stderr, limit: r.limits().Output}
	if o.limit == 0 {
		return o, nil
	}
	to := [2]*os.File{or(r.spec.Stdout, os.Stdout), or(r.spec.Stderr, os.Stderr)}
	for i := range to {
		rd, wr, err := os.Pipe()
		if err != nil {
			for _, p := range o.pairs {
				p.r.Close()
				o.stdout.Close() // the only other one made so far
			}
			return nil, err
		}
		if i == 0 {
			o.stdout = wr
		} else {
			o.stderr = wr
		}
		o.pairs = append(o.pairs, pair{rd, to[i]})
	}
	return o, nil
}

func or(a, b *os.File) *os.File {
	if a != nil {
		return a
	}
	return b
}

// started begins copying; the command has its ends now.
func (o *output) started(end *ending) {
	if len(o.pairs) == 0 {
		return
	}
	o.stdout.Close()
	o.stderr.Close()
	for _, p := range o.pairs {
		o.wg.Go(func() { o.copy(p, end) })
	}
}

func (o *output) copy(p pair, end *ending) {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.r.Read(buf)
		if n > 0 {
			used := o.used.Add(int64(n))
			over := used - o.limit
			if over > 0 {
				n = int(max(0, int64(n)-over))
			}
			if _, werr := p.to.Write(buf[:n]); werr != nil && over <= 0 {
				// Nobody reads any more: let the command see it, as with a
				// descriptor of its own.
				p.r.Close()
				return
			}
			if over > 0 {
				end.end("output", "")
				io.Copy(io.Discard, p.r)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// drain waits until what the command wrote is copied. Every process of the run
// is dead, so the pipes end; the deadline is for a descriptor that was passed
// to somebody else.
func (o *output) drain() {
	if len(o.pairs) == 0 {
		return
	}
	for _, p := range o.pairs {
		p.r.SetReadDeadline(time.Now().Add(5 * time.Second))
	}
	o.wg.Wait()
}

func (o *output) close() {
	for _, p := range o.pairs {
		p.r.Close()
	}
	if len(o.pairs) > 0 {
		errors.Join(o.stdout.Close(), o.stderr.Close())
	}
}
