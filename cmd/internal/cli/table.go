package cli

import (
	"errors"
	"strings"
)

// options are the values of all flags of all commands.
type options struct {
	help bool
	json bool

	profiles []string

	ro, rw, rx, deny []string
	net              string
	allow            []string
	listen           []string
	unix             []string
	memory, pids     string
	cpu, timeout     string
	output           string
	env              []string
	secrets          []string
	workdir          string
	tty              *bool
	plan             bool
	receipt          string
	weaker           []string

	platform string
	raw      bool
	quiet    bool
	remove   bool
}

// assign stores a value where the flag's row says: list appends each value of a
// repeated flag, once takes one value (giving a flag twice is more likely a slip
// than a wish), toggle takes none.
func (f *flagDef) assign(o *options, v string) error {
	switch {
	case f.set != nil:
		return f.set(o, v)
	case f.toggle != nil:
		*f.toggle(o) = true
		return nil
	case v == "":
		return errors.New("the value is empty")
	case f.list != nil:
		p := f.list(o)
		*p = append(*p, v)
		return nil
	}
	p := f.once(o)
	if *p != "" {
		return errors.New("the flag was given twice")
	}
	*p = v
	return nil
}

var (
	helpFlag = &flagDef{long: "help", short: "h", help: "show this help", toggle: func(o *options) *bool { return &o.help }}
	jsonFlag = &flagDef{long: "json", help: "print JSON, one object a line", toggle: func(o *options) *bool { return &o.json }}

	profileFlag = &flagDef{long: "profile", short: "p", arg: "NAME|FILE", values: "profile",
		help: "profile to use; may repeat, profiles join (default base)",
		list: func(o *options) *[]string { return &o.profiles }}
)

// policyFlags change the profile of a run; explain takes them too, so that it
// answers for the very run that somebody has in mind.
var policyFlags = []*flagDef{
	profileFlag,
	{long: "ro", arg: "PATH", values: "file", help: "also allow reading PATH", list: func(o *options) *[]string { return &o.ro }},
	{long: "rw", arg: "PATH", values: "file", help: "also allow reading and writing PATH", list: func(o *options) *[]string { return &o.rw }},
	{long: "rx", arg: "PATH", values: "file", help: "also allow reading and executing PATH", list: func(o *options) *[]string { return &o.rx }},
	{long: "deny", arg: "PATH", values: "file", help: "close PATH (the narrower rule wins)", list: func(o *options) *[]string { return &o.deny }},
	{long: "net", arg: "none|gate|direct", values: "none gate direct", help: "network mode (default none)", once: func(o *options) *string { return &o.net }},
	{long: "allow", arg: "HOST[:PORT]|CIDR[:PORT[/udp]]", help: "destination that --net may reach; IPv6 in brackets", list: func(o *options) *[]string { return &o.allow }},
	{long: "listen", arg: "PORT", help: "port that the command may listen on", list: func(o *options) *[]string { return &o.listen }},
	{long: "unix", arg: "PATH", values: "file", help: "Unix socket that the command may connect to", list: func(o *options) *[]string { return &o.unix }},
	{long: "workdir", arg: "DIR", values: "dir", help: "working directory, and $WORKSPACE of the profile", once: func(o *options) *string { return &o.workdir }},
	{long: "tty", help: "keep the terminal for the command", set: func(o *options, _ string) error { return setTTY(o, true) }},
	{long: "no-tty", help: "give the command a session without a terminal", set: func(o *options, _ string) error { return setTTY(o, false) }},
}

func setTTY(o *options, on bool) error {
	if o.tty != nil && *o.tty != on {
		return errors.New("--tty and --no-tty exclude each other")
	}
	o.tty = &on
	return nil
}

// commands is the table. Parsing, help and completion are made from it. It holds
// constants only, so that no start pays for making it; what a command does is in
// [command.code].
var commands = []*command{
	{
		name: "run", use: "[flags] [--] CMD [ARG…]", short: "run one command confined",
		long: `Runs CMD under the joined profiles: what they name is reachable, everything else
is denied by the kernel. Without -p the profile is base, which grants no file of
yours and no network.

$WORKSPACE in a profile is --workdir, else the git top level of the current
directory, else the current directory; never /, your home or above.

CMD starts in --workdir, else in the current directory. Where the profile does
not grant the current directory it starts in /; a --workdir that is not granted
is an error.

A secret REF is vault:NAME, env:NAME or file:PATH. Items of the vault go only to
the installed profiles that they name, never to a profile given as a FILE.

Exit codes: the command's own; 124 timed out; 125 lockbox itself failed;
126 found but cannot be executed; 127 not found; 128+N killed by signal N;
137 killed by a limit, which is named on stderr and in the receipt.`,
		policy: true, flags: []*flagDef{
			{long: "memory", arg: "SIZE", help: "most memory, as 512MiB", once: func(o *options) *string { return &o.memory }},
			{long: "pids", arg: "N", help: "most processes and threads", once: func(o *options) *string { return &o.pids }},
			{long: "cpu", arg: "N", help: "most CPUs, as 1.5", once: func(o *options) *string { return &o.cpu }},
			{long: "timeout", arg: "DURATION", help: "end the run after this time, as 30s", once: func(o *options) *string { return &o.timeout }},
			{long: "output-limit", arg: "SIZE", help: "most bytes on stdout and stderr together", once: func(o *options) *string { return &o.output }},
			{long: "env", arg: "NAME[=VALUE]", help: "pass or set an environment variable", list: func(o *options) *[]string { return &o.env }},
			{long: "secret", arg: "NAME=REF", help: "set a variable to a secret; masked in all that lockbox prints", list: func(o *options) *[]string { return &o.secrets }},
			{long: "plan", help: "print what would be enforced, by which syscall, and exit", toggle: func(o *options) *bool { return &o.plan }},
			{long: "receipt", arg: "FILE|-", values: "file", help: "write the receipt as JSON when the run ends", once: func(o *options) *string { return &o.receipt }},
			{long: "weaker", arg: "FEATURE", help: "accept that FEATURE is not enforced on this host (named in the receipt)", list: func(o *options) *[]string { return &o.weaker }},
		},
		args: []string{"CMD", "[ARG…]"}, values: []string{"command", "file"}, trailer: true, ownCode: exitLockbox,
	},
	{
		name: "explain", use: "[flags] file PATH OP | net HOST:PORT[/udp]", short: "say what a profile allows, and which rule decides",
		long: `Answers from the same model that the kernel's rules are compiled from: every
step, the one that decided, and the line that would change it.

    lockbox explain -p git file ~/.ssh/id_ed25519 r
    lockbox explain -p node net registry.example.org:443

OP is r, w or x, or a word: read, write, exec, create, remove, metadata, stat,
unix; rename and link take a second path: file PATH rename TO.

Exit codes: 0 allowed, 1 denied, 3 somebody would be asked, 2 an error.`,
		policy: true, flags: []*flagDef{
			{long: "platform", arg: "linux|darwin", values: "linux darwin", help: "answer for this system (default: this one)", once: func(o *options) *string { return &o.platform }},
			jsonFlag},
		args: []string{"file|net", "[ARG…]"}, values: []string{"file net", "file", "r w x read write exec create remove metadata"},
	},
	{
		name: "profile list", use: "[--json]", short: "list the profiles that -p takes by name",
		long: `Looks in $XDG_CONFIG_HOME/lockbox/profiles, then /etc/lockbox/profiles, then
among the presets; the first of a name wins.`,
		flags: []*flagDef{jsonFlag, {long: "quiet", short: "q", help: "print names only", toggle: func(o *options) *bool { return &o.quiet }}},
	},
	{
		name: "profile show", use: "[flags] NAME|FILE", short: "print a profile as it is enforced",
		long: `Prints the profile with everything it extends, expanded, with the invariants
compiled in, in canonical form.`,
		flags: []*flagDef{{long: "raw", help: "print the document as it was written", toggle: func(o *options) *bool { return &o.raw }}},
		args:  []string{"NAME|FILE"}, values: []string{"profile"},
	},
	{
		name: "profile check", use: "NAME|FILE…", short: "check profiles; errors have line and column",
		args: []string{"NAME|FILE…"}, values: []string{"profile"},
	},
	{
		name: "profile diff", use: "A B", short: "show what profile B gives or closes compared with A",
		long: `Compares the canonical forms. Exit code 0: the same, 1: they differ.`,
		args: []string{"A", "B"}, values: []string{"profile", "profile"},
	},
	{
		name: "profile schema", short: "print the JSON schema of a profile, for editors",
	},
	{
		name: "doctor", use: "[--json] [--remove]", short: "say what this host can enforce, each line proved by trying it",
		long: `Exit code 0: everything works, 1: something is missing (its fix is printed).`,
		flags: []*flagDef{jsonFlag, {long: "remove", help: "take away the state that lockbox keeps pinned in the kernel",
			toggle: func(o *options) *bool { return &o.remove }}},
	},
	{
		name: "ps", use: "[--json]", short: "list the runs that the runner's service holds",
		long: `Lists your own runs; root and the operators' group see all. Runs that lockbox
looks after by itself, without the service, are not in it.`,
		flags: []*flagDef{jsonFlag},
	},
	{
		name: "kill", use: "RUN", short: "end every process of a run of yours",
		args: []string{"RUN"},
	},
	{
		name: "receipt", use: "RUN", short: "print the receipt of an ended run that the service kept",
		args: []string{"RUN"},
	},
	{
		name: "vault set", use: "NAME [-p PROFILE]…", short: "store a secret; the value comes from stdin",
		long: `Only runs of the installed profiles named with -p get the value; with none named
nothing gets it. Setting an item again without -p keeps its list.`,
		flags: []*flagDef{{long: "profile", short: "p", arg: "PROFILE", values: "profile", help: "installed profile that may have the value; may repeat",
			list: func(o *options) *[]string { return &o.profiles }}},
		args: []string{"NAME"},
	},
	{
		name: "vault list", use: "[--json]", short: "list the names of the stored secrets, never the values",
		flags: []*flagDef{jsonFlag},
	},
	{
		name: "vault rm", use: "NAME", short: "remove a stored secret",
		args: []string{"NAME"},
	},
	{
		name: "completion", use: "bash|zsh|fish", short: "print the completion script of a shell",
		long: `    bash   source <(lockbox completion bash)
    zsh    lockbox completion zsh > "${fpath[1]}/_lockbox"
    fish   lockbox completion fish | source`,
		args: []string{"bash|zsh|fish"}, values: []string{"bash zsh fish"},
	},
	{
		name: "help", use: "[COMMAND]", short: "show help", args: []string{"[COMMAND…]"}, values: []string{"topic"},
	},
	{
		name: "version", use: "[--json]", short: "show the version", flags: []*flagDef{jsonFlag},
	},
}

// code is what a command runs, nil for a name that is not in the table.
func (c *command) code() func(*app) int {
	switch c.name {
	case "run":
		return (*app).run
	case "explain":
		return (*app).explain
	case "profile list":
		return (*app).profileList
	case "profile show":
		return (*app).profileShow
	case "profile check":
		return (*app).profileCheck
	case "profile diff":
		return (*app).profileDiff
	case "profile schema":
		return (*app).profileSchema
	case "doctor":
		return (*app).doctor
	case "ps":
		return (*app).ps
	case "kill":
		return (*app).kill
	case "receipt":
		return (*app).receipt
	case "vault set":
		return (*app).vaultSet
	case "vault list":
		return (*app).vaultList
	case "vault rm":
		return (*app).vaultRemove
	case "completion":
		return (*app).completion
	case "help":
		return (*app).help
	case "version":
		return (*app).version
	}
	return nil
}

// lookup finds a command by its full name.
func lookup(name string) *command {
	for _, c := range commands {
		if c.name == name {
			return c
		}
	}
	return nil
}

// verbsOf lists the verbs of a group of commands.
func verbsOf(group string) []string {
	var verbs []string
	for _, c := range commands {
		if rest, ok := strings.CutPrefix(c.name, group+" "); ok {
			verbs = append(verbs, rest)
		}
	}
	return verbs
}

// firstWords lists the words that can follow "lockbox".
func firstWords() []string {
	var words []string
	for _, c := range commands {
		w, _, _ := strings.Cut(c.name, " ")
		if len(words) == 0 || words[len(words)-1] != w {
			words = append(words, w)
		}
	}
	return words
}
