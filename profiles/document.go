package profiles

import "strconv"

// Document is one parsed profile file: nothing expanded, nothing inherited yet.
type Document struct {
	Source  string // where it came from, for messages
	Name    string
	Extends []string
	Files   []FileRule
	Net     NetRules
	Limits  Limits
	Env     Env
	Process ProcessRules
}

// FileRule is one [[file]] table. It is read in view of what the document, with
// all that it extends, gives at the nearest enclosing path: where it gives less
// in any right it is a carve-out (and a grant of the same), else a grant.
type FileRule struct {
	Path     string
	Literal  bool // from path_b64: no expansion
	Access   Access
	Carve    bool   // only a cap, whatever encloses it
	Optional bool   // an absent path is no error; the rule then does not hold
	id       string // empty: made of the document's name and the index
}

// NetRules is the [net] table; nil means that the document is silent.
type NetRules struct {
	Mode   *Mode
	Allow  []Entry
	Listen []uint16
	Unix   []string
}

// ProcessRules is the [process] table; nil means that the document is silent.
type ProcessRules struct {
	Syscalls *Syscalls
	TTY      *bool
}

// SyntaxError says what is wrong in a profile file, and where.
type SyntaxError struct {
	Source    string
	Line, Col int // from 1; zero means unknown
	Key       string
	Msg       string
	Want      string // what is allowed; may be empty
}

func (e *SyntaxError) Error() string {
	s := e.Source
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Col)
	}
	s += ": " + e.Msg
	if e.Want != "" {
		s += "; " + e.Want
	}
	return s
}
