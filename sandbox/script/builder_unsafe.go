package script

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// Builder lays a script out in memory. It is not safe for concurrent use.
type Builder struct {
	ops   []op
	steps []Step
	keep  []any
	arena []byte // the rest of the chunk that strings are copied into
	nregs Reg
	free  []Reg
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{ops: make([]op, 0, 384), steps: make([]Step, 0, 384), keep: make([]any, 0, 384)}
}

// NewReg reserves a register.
func (b *Builder) NewReg() Reg {
	if n := len(b.free); n > 0 {
		r := b.free[n-1]
		b.free = b.free[:n-1]
		return r
	}
	if b.nregs == maxReg {
		panic("BUG: script keeps too many registers")
	}
	b.nregs++
	return b.nregs
}

// Free gives a register back once no later step reads it.
func (b *Builder) Free(r Reg) { b.free = append(b.free, r) }

const maxReg = ^Reg(0)

// Option changes how a step's outcome is judged or where its result goes. It is a
// value, not a function: a start lays out some three hundred steps.
type Option struct {
	out  Reg
	exp  expectation
	res  uintptr
	want [maxWant]uint16
}

// Out keeps the step's result in r.
func Out(r Reg) Option { return Option{out: r} }

// Ignore lets the script go on whatever the step's outcome.
func Ignore() Option { return Option{exp: mayFail} }

// WantErrno makes the step a canary: it must fail with one of the errnos (at
// most four), else the script stops.
func WantErrno(errnos ...syscall.Errno) Option {
	o := Option{exp: mustFail}
	for i, e := range errnos {
		o.want[i] = uint16(e)
	}
	return o
}

// WantResult makes the step succeed only with exactly this result.
func WantResult(v uintptr) Option { return Option{exp: mustReturn, res: v} }

// Call appends a step. Arguments may be an int, a uint64 or uintptr, a string
// (passed as a NUL-terminated byte string; a NUL inside is an error at run time
// and therefore panics here), a []byte, a [Reg], or an unsafe.Pointer whose
// target the builder keeps alive.
func (b *Builder) Call(what Step, nr uintptr, args []any, opts ...Option) {
	b.ops = append(b.ops, op{nr: nr})
	o := &b.ops[len(b.ops)-1]
	for i, a := range args {
		switch v := a.(type) {
		case int:
			o.args[i] = uintptr(v)
		case uint64:
			o.args[i] = uintptr(v)
		case uintptr:
			o.args[i] = v
		case Reg:
			o.regs[i] = v
		case string:
			o.args[i] = b.cstring(v)
		case []byte:
			o.args[i] = b.bytes(v)
		case unsafe.Pointer:
			b.keep = append(b.keep, v)
			o.args[i] = uintptr(v)
		default:
			panic(fmt.Sprintf("BUG: script argument %d of %s has type %T", i, what.Call, a))
		}
	}
	for i := range opts {
		if f := &opts[i]; f.exp != mustSucceed {
			o.exp, o.res, o.want = f.exp, f.res, f.want
		} else {
			o.out = f.out
		}
	}
	b.steps = append(b.steps, what)
}

// Store appends a pseudo step that writes r as a 32-bit value to *p.
func (b *Builder) Store(p *int32, r Reg) {
	o := op{nr: opStore, mem: p}
	o.regs[1] = r
	b.ops = append(b.ops, o)
	b.steps = append(b.steps, Step{Call: "(store)", What: "descriptor into the next call's structure"})
}

// Exec appends the final execve.
func (b *Builder) Exec(path string, argv, envv []string) {
	b.Call(Step{"execve", path}, syscall.SYS_EXECVE, []any{path, b.strings(argv), b.strings(envv)})
}

// ExecFD appends a final execveat of the file behind a descriptor.
func (b *Builder) ExecFD(what string, fd uintptr, argv, envv []string) {
	const atEmptyPath = 0x1000 // AT_EMPTY_PATH, execveat(2), since Linux 3.19
	b.Call(Step{"execveat", what}, sysExecveat, []any{fd, "", b.strings(argv), b.strings(envv), atEmptyPath})
}

// Keep keeps v alive as long as the script.
func (b *Builder) Keep(v any) { b.keep = append(b.keep, v) }

func (b *Builder) cstring(s string) uintptr {
	return uintptr(unsafe.Pointer(b.copy(s)))
}

// chunk is how much is taken at once for strings. A chunk never moves, so the
// addresses in it stay; it lives as long as the script.
const chunk = 8 << 10

// copy makes a NUL-terminated copy of s.
func (b *Builder) copy(s string) *byte {
	if strings.IndexByte(s, 0) >= 0 {
		panic("BUG: script string holds a NUL byte")
	}
	if len(s) >= len(b.arena) {
		b.arena = make([]byte, max(chunk, len(s)+1))
		b.keep = append(b.keep, &b.arena[0])
	}
	p := &b.arena[0]
	copy(b.arena, s) // the byte after it is zero: nothing was written there
	b.arena = b.arena[len(s)+1:]
	return p
}

func (b *Builder) bytes(v []byte) uintptr {
	if len(v) == 0 {
		return 0
	}
	b.keep = append(b.keep, &v[0])
	return uintptr(unsafe.Pointer(&v[0]))
}

func (b *Builder) strings(v []string) unsafe.Pointer {
	ptrs := make([]*byte, len(v)+1)
	for i, s := range v {
		ptrs[i] = b.copy(s)
	}
	b.keep = append(b.keep, ptrs)
	return unsafe.Pointer(&ptrs[0])
}

// Script ends building.
func (b *Builder) Script() *Script {
	return &Script{ops: b.ops, steps: b.steps, keep: b.keep, regs: make([]uintptr, b.nregs+1)}
}

// Script is a prebuilt list of steps. It may be run once at a time.
type Script struct {
	ops   []op
	steps []Step
	keep  []any // what the ops' addresses point to
	regs  []uintptr
}

// Steps returns the steps for printing.
func (s *Script) Steps() []Step { return s.steps }

// frame is everything that the child writes or the kernel fills in. It lives on
// the heap: goroutine stacks may move, heap objects do not.
type frame struct {
	ops    *op
	n      uintptr
	regs   *uintptr
	stop   uintptr // run steps up to this index only (fault injection); n for all
	args   cloneArgs
	pidfd  int32
	index  uintptr // step that ended the script
	errno  uintptr
	failed uintptr // 1: a step failed (or execve), 2: stopped by fault injection
}

func (s *Script) frame() *frame {
	f := &frame{ops: unsafe.SliceData(s.ops), n: uintptr(len(s.ops)), regs: unsafe.SliceData(s.regs), pidfd: -1}
	f.stop = f.n
	return f
}

// result turns what the child left into an error.
func (s *Script) result(f *frame) error {
	if f.failed == 0 {
		return nil
	}
	o := s.ops[f.index]
	e := &StepError{Index: int(f.index), Step: s.steps[f.index], Errno: syscall.Errno(f.errno)}
	e.Canary = o.exp == mustFail || (o.exp == mustReturn && f.errno == 0)
	runtime.KeepAlive(s)
	return e
}

// step runs the script's steps with raw system calls and returns only when one
// of them stopped it. It runs in the vfork child on the parent's stack, so it
// may not allocate, grow the stack, or be instrumented.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func step(f *frame) {
	var (
		i, k, r uintptr
		e       syscall.Errno
		o       *op
		a       [6]uintptr
		ok      bool
	)
	for i = 0; i < f.n; i++ {
		if i == f.stop {
			f.index, f.errno, f.failed = i, 0, 2
			return
		}
		o = (*op)(unsafe.Add(unsafe.Pointer(f.ops), i*unsafe.Sizeof(op{})))
		for k = 0; k < 6; k++ {
			a[k] = o.args[k]
			if o.regs[k] != 0 {
				a[k] = *(*uintptr)(unsafe.Add(unsafe.Pointer(f.regs), uintptr(o.regs[k])*unsafe.Sizeof(uintptr(0))))
			}
		}
		if o.nr == opStore {
			*o.mem = int32(a[1])
			continue
		}
		r, _, e = syscall.RawSyscall6(o.nr, a[0], a[1], a[2], a[3], a[4], a[5])
		switch o.exp {
		case mustSucceed:
			ok = e == 0
		case mustFail:
			ok = e != 0 && (uint16(e) == o.want[0] || uint16(e) == o.want[1] || uint16(e) == o.want[2] || uint16(e) == o.want[3])
		case mustReturn:
			ok = e == 0 && r == o.res
		case mayFail:
			ok = true
		default:
			ok = false
		}
		if !ok {
			f.index, f.errno, f.failed = i, uintptr(e), 1
			return
		}
		if o.out != 0 {
			*(*uintptr)(unsafe.Add(unsafe.Pointer(f.regs), uintptr(o.out)*unsafe.Sizeof(uintptr(0)))) = r
		}
	}
	f.index, f.errno, f.failed = f.n-1, 0, 1 // the last step is an execve and does not return
}
