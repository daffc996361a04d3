package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A hinted error carries what to try next, and, where it is not the usual
// one, the exit code.
type hinted struct {
	err   error
	hints []string
	code  int // zero: the command's usual one
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// withHint adds a line that starts "hint: ".
func withHint(err error, format string, args ...any) error {
	return &hinted{err: err, hints: []string{fmt.Sprintf(format, args...)}}
}

// withCode fixes the exit code.
func withCode(code int, err error, hints ...string) error {
	return &hinted{err: err, hints: hints, code: code}
}

// fail prints an error as "lockbox: …" with its hints and returns the exit
// code that goes with it.
func (a *app) fail(err error) int {
	code := exitUsage
	if a.cmd != nil && a.cmd.ownCode != 0 {
		code = a.cmd.ownCode
	}
	err = a.explained(err)
	a.say(err.Error())
	var printed []string
	for e := err; e != nil; e = errors.Unwrap(e) {
		h, ok := e.(*hinted)
		if !ok {
			continue
		}
		if h.code != 0 {
			code = h.code
		}
		printed = append(printed, h.hints...)
	}
	for _, hint := range printed {
		a.hint(hint)
	}
	return code
}

// say prints one line for people on stderr.
func (a *app) say(line string) { a.errLine("lockbox: ", line) }

// hint prints what to try next.
func (a *app) hint(line string) { a.errLine("hint: ", line) }

func (a *app) errLine(prefix, line string) {
	io.WriteString(a.Err, prefix+oneLine(a.mask(line), maxLine)+"\n")
}

// print writes text to stdout, secrets masked.
func (a *app) print(text string) {
	io.WriteString(a.Out, a.mask(text))
}

func (a *app) printf(format string, args ...any) { a.print(fmt.Sprintf(format, args...)) }

const masked = "***"

// mask replaces every secret value that this invocation knows.
func (a *app) mask(s string) string {
	for _, m := range a.masks {
		s = strings.ReplaceAll(s, m, masked)
	}
	return s
}

// maxLine is the longest message we print, in bytes: a path of 1 MiB in an
// error is still one readable line.
const maxLine = 600

// oneLine makes text safe to print as a single line: control characters are
// escaped, and the middle of a very long one is left out.
func oneLine(s string, limit int) string {
	if len(s) > limit {
		head, tail := cut(s, limit*2/3), s[len(s)-limit/3:]
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
		s = head + "…(" + strconv.Itoa(len(s)) + " bytes)…" + tail
	}
	clean := true
	for _, r := range s {
		if unprintable(r) {
			clean = false
			break
		}
	}
	if clean && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unprintable(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unprintable holds for characters that would break the line or drive the
// terminal: C0 and C1 controls, and the bidirectional overrides.
func unprintable(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == 0x2028 || r == 0x2029
}

// cut shortens to at most n bytes at a character boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
