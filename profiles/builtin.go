package profiles

// Builtin is a place that every run has of its own, whatever the profile says.
type Builtin struct {
	Path    string
	Access  Access
	Private bool // a directory of the run's own; the host's is not visible there
	ID      string
}

// builtins is the table; the terminal's rows count only in runs with one.
var builtins = []struct {
	Builtin
	tty bool
}{
	{Builtin{"/tmp", all, true, "builtin:tmp"}, false},
	{Builtin{"/var/tmp", all, true, "builtin:tmp"}, false},
	{Builtin{"/dev/shm", all, true, "builtin:shm"}, false},
	{Builtin{"/proc", Read, true, "builtin:proc"}, false},
	{Builtin{"/dev/null", Read | Write, false, "builtin:dev"}, false},
	{Builtin{"/dev/zero", Read | Write, false, "builtin:dev"}, false},
	{Builtin{"/dev/full", Read | Write, false, "builtin:dev"}, false},
	{Builtin{"/dev/random", Read | Write, false, "builtin:dev"}, false},
	{Builtin{"/dev/urandom", Read | Write, false, "builtin:dev"}, false},
	{Builtin{"/dev/tty", Read | Write, false, "builtin:tty"}, true},
	{Builtin{"/dev/pts", Read | Write, false, "builtin:tty"}, true},
}

// Builtins lists the built-in places of a run.
func (s *Sealed) Builtins() []Builtin {
	var out []Builtin
	for _, b := range builtins {
		if !b.tty || s.profile.Process.TTY {
			out = append(out, b.Builtin)
		}
	}
	return out
}
