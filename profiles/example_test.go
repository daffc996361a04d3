package profiles_test

import (
	"fmt"

	"lockbox/profiles"
)

func Example() {
	lookup := func(name string) (*profiles.Document, error) {
		if d, ok := profiles.Preset(name); ok {
			return d, nil
		}
		return nil, fmt.Errorf("no preset %q", name)
	}
	ex := profiles.Expand{Home: "/home/u", Workspace: "/home/u/src/app", TmpDir: "/tmp"}
	p, err := profiles.Load([]string{"base"}, lookup, ex)
	if err != nil {
		fmt.Println(err)
		return
	}
	if p, err = p.WithFlags(profiles.Flags{RW: []string{"/home/u/src"}}); err != nil {
		fmt.Println(err)
		return
	}
	s, err := profiles.Seal(p, ex, profiles.Terminal)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/home/u/src/main.go", "/home/u/.ssh/id_ed25519", "/etc/shadow"} {
		d := s.Decide(profiles.OpWrite, profiles.Object{Path: path})
		fmt.Println(path, d.Allow, d.Rule)
	}
	// Output:
	// /home/u/src/main.go true flag:--rw
	// /home/u/.ssh/id_ed25519 false invariant:ssh
	// /etc/shadow false default
}
