// Package profiles holds policy as values: what a command may reach, parsed
// from TOML, composed, narrowed, printed, and asked.
//
//	lookup := func(name string) (*profiles.Document, error) {
//		if d, ok := profiles.Preset(name); ok {
//			return d, nil
//		}
//		return nil, fmt.Errorf("no preset %q", name)
//	}
//	ex := profiles.Expand{Home: "/home/u", Workspace: "/home/u/src/app", TmpDir: "/tmp"}
//	p, err := profiles.Load([]string{"git"}, lookup, ex)
//	…
//	s, err := profiles.Seal(p, ex, profiles.Terminal)
//	…
//	d := s.Decide(profiles.OpRead, profiles.Object{Path: "/home/u/.ssh/id_ed25519"})
//	fmt.Println(d.Allow, d.Rule) // false invariant:ssh
//
// # Files
//
// A profile has grants (a path and what it opens) and carve-outs (a path and
// how far it stays open). Walking from / to a path, each named directory first
// adds its grant and then cuts to its cap; what is left at the end is the
// access. So the narrower path wins, a deeper grant opens again, and at one
// path the carve-out wins. Nothing named is nothing open.
//
// [Join] unites what an author composes; [Meet] narrows by a ceiling and never
// gives what either side does not; [Seal] closes the invariants, after which
// only [Sealed] is asked or enforced.
//
// # What it does not restrict
//
// Nothing: the package is pure. It makes no system call, opens no file and
// resolves no symbolic link or host name; the sandbox packages turn a Sealed
// into what the kernel enforces, and differ from it only where they report so.
// Permissions of the host's files come on top of every Decision that allows.
package profiles
