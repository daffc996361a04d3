package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// command is one row of the table: a command or a command with its verb.
type command struct {
	name    string // as typed: "run", "profile show"
	use     string // what follows the name in the usage line
	short   string // one line, lower case, no full stop
	long    string // paragraphs of the help text
	policy  bool   // takes policyFlags, before its own
	flags   []*flagDef
	args    []string // names of the positional arguments; "[X]" may be absent, "X…" repeats
	values  []string // for completion: the kind of each positional argument
	trailer bool     // everything from the first word that is no flag on belongs to CMD
	ownCode int      // exit code of our own errors; zero is exitUsage
}

// flagDef is one flag of the table.
type flagDef struct {
	long   string
	short  string // one letter, or none
	arg    string // name of the value; empty for a switch
	help   string
	values string // for completion: "file", "dir", "profile", or words separated by spaces
	// One of these stores the value; see assign.
	list   func(*options) *[]string
	once   func(*options) *string
	toggle func(*options) *bool
	set    func(*options, string) error
}

func (f *flagDef) String() string { return "--" + f.long }

// findCommand takes the command's words off the arguments.
func findCommand(args []string) (*command, []string, error) {
	if len(args) == 0 {
		return nil, nil, withHint(errors.New("no command given"), "`lockbox help` lists the commands")
	}
	switch args[0] {
	case "-h", "--help":
		return lookup("help"), args[1:], nil
	case "--version":
		return lookup("version"), args[1:], nil
	}
	if len(args) > 1 {
		if c := lookup(args[0] + " " + args[1]); c != nil {
			return c, args[2:], nil
		}
	}
	if c := lookup(args[0]); c != nil {
		return c, args[1:], nil
	}
	if verbs := verbsOf(args[0]); len(verbs) > 0 {
		return verbError(args, verbs)
	}
	if strings.HasPrefix(args[0], "-") {
		return nil, nil, withHint(fmt.Errorf("unknown flag %s", args[0]), "flags follow the command: `lockbox run %s …`", args[0])
	}
	return nil, nil, withHint(fmt.Errorf("unknown command %q", args[0]), "%s", nearestHint("lockbox ", args[0], firstWords(),
		"`lockbox help` lists the commands"))
}

// verbError answers a group ("profile") without one of its verbs.
func verbError(args, verbs []string) (*command, []string, error) {
	list := strings.Join(verbs, ", ")
	if len(args) == 1 {
		return nil, nil, withHint(fmt.Errorf("%s needs a verb: %s", args[0], list), "`lockbox %s %s`", args[0], verbs[0])
	}
	if args[1] == "-h" || args[1] == "--help" {
		return lookup("help"), args[:1], nil
	}
	return nil, nil, withHint(fmt.Errorf("unknown verb %q of %s; allowed: %s", args[1], args[0], list), "%s",
		nearestHint("lockbox "+args[0]+" ", args[1], verbs, fmt.Sprintf("`lockbox help %s`", args[0])))
}

// parse reads flags into o and returns the positional arguments. Flags may be
// written --flag=value, --flag value, -fvalue and -f value, and may stand
// between the arguments; after "--" nothing is a flag. For a command with a
// trailer the first word that is no flag ends the flags.
func parse(c *command, args []string, o *options) ([]string, error) {
	var words []string
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			return append(words, args[1:]...), nil
		}
		if word == "-" || !strings.HasPrefix(word, "-") {
			if c.trailer {
				return append(words, args...), nil
			}
			words, args = append(words, word), args[1:]
			continue
		}
		rest, err := parseFlag(c, args, o)
		if err != nil {
			return nil, err
		}
		args = rest
	}
	return words, nil
}

// parseFlag consumes the flag at args[0] and its value.
func parseFlag(c *command, args []string, o *options) ([]string, error) {
	word, rest := args[0], args[1:]
	name, value, glued := word, "", false
	if strings.HasPrefix(word, "--") {
		name, value, glued = strings.Cut(word, "=")
	} else if len(word) > 2 {
		name, value, glued = word[:2], strings.TrimPrefix(word[2:], "="), true
	}
	f := c.flag(name)
	if f == nil {
		return nil, unknownFlag(c, name)
	}
	if f.arg == "" {
		if glued {
			return nil, fmt.Errorf("%s takes no value, but was given %q", name, value)
		}
		return rest, f.assign(o, "")
	}
	if !glued {
		if len(rest) == 0 {
			return nil, withHint(fmt.Errorf("%s needs a value", name), "`lockbox %s %s %s`", c.name, name, f.arg)
		}
		value, rest = rest[0], rest[1:]
	}
	if strings.IndexByte(value, 0) >= 0 {
		return nil, fmt.Errorf("%s: the value holds a NUL byte", name)
	}
	if err := f.assign(o, value); err != nil {
		return nil, fmt.Errorf("%s %q: %w", name, value, err)
	}
	return rest, nil
}

func unknownFlag(c *command, name string) error {
	var all []string
	for _, f := range c.allFlags() {
		all = append(all, f.String())
	}
	return withHint(fmt.Errorf("unknown flag %s", name), "%s",
		nearestHint("", name, all, fmt.Sprintf("`lockbox help %s` lists the flags", c.name)))
}

// flag finds a flag by the word that was typed.
func (c *command) flag(word string) *flagDef {
	long, isLong := strings.CutPrefix(word, "--")
	short := strings.TrimPrefix(word, "-")
	for _, f := range c.allFlags() {
		if isLong && long == f.long || !isLong && f.short != "" && short == f.short {
			return f
		}
	}
	return nil
}

func (c *command) allFlags() []*flagDef {
	if c.policy {
		return slices.Concat(policyFlags, c.flags, []*flagDef{helpFlag})
	}
	return append(c.flags[:len(c.flags):len(c.flags)], helpFlag)
}

// checkArgs compares the number of positional arguments with the table.
func checkArgs(c *command, args []string) error {
	least, most := 0, len(c.args)
	for _, name := range c.args {
		if strings.HasSuffix(name, "…") || strings.HasSuffix(name, "…]") {
			most = -1
		}
		if !strings.HasPrefix(name, "[") {
			least++
		}
	}
	usage := fmt.Sprintf("`lockbox %s`", c.usage())
	if len(args) < least {
		return withHint(fmt.Errorf("%s: %s is missing", c.name, c.args[len(args)]), "%s", usage)
	}
	if most >= 0 && len(args) > most {
		return withHint(fmt.Errorf("%s: unexpected argument %q", c.name, args[most]), "%s", usage)
	}
	for _, arg := range args {
		if strings.IndexByte(arg, 0) >= 0 {
			return fmt.Errorf("%s: an argument holds a NUL byte", c.name)
		}
	}
	return nil
}

func (c *command) usage() string {
	if c.use == "" {
		return c.name
	}
	return c.name + " " + c.use
}
